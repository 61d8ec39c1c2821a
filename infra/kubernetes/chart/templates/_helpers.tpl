{{- define "icemirror.labels" -}}
{{- /* Argument: a list of the root context and the name of the component. */ -}}
app.kubernetes.io/name: icemirror
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "icemirror.image" -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}

{{- /* The configuration from the values, with defaults for state and launcher if their type is kubernetes. */ -}}
{{- define "icemirror.config" -}}
{{- $namespace := .Release.Namespace -}}
{{- $state := dict "type" "kubernetes" "namespace" $namespace -}}
{{- $launcher := dict "type" "kubernetes" "namespace" $namespace "image" (include "icemirror.image" .Values.images.job) "service_account" (printf "%s-job" .Release.Name) -}}
{{- $defaults := dict -}}
{{- range $section, $default := dict "state" $state "launcher" $launcher -}}
{{- $given := index ($.Values.config.trigger | default dict) $section | default dict -}}
{{- if eq ($given.type | default "kubernetes") "kubernetes" -}}{{- $_ := set $defaults $section $default -}}{{- end -}}
{{- end -}}
{{- toYaml (mergeOverwrite (dict "trigger" $defaults) (deepCopy .Values.config)) -}}
{{- end }}

{{- define "icemirror.configName" -}}
{{ .Release.Name }}-{{ include "icemirror.config" . | sha256sum | trunc 10 }}
{{- end }}

{{- define "icemirror.pod" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "icemirror.container" -}}
env:
  - name: ICEMIRROR_CONFIG
    value: /etc/icemirror/icemirror.yaml
envFrom:
  - secretRef:
      name: {{ .Values.existingSecret }}
      optional: true
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: config, mountPath: /etc/icemirror, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "icemirror.volumes" -}}
volumes:
  - name: config
    configMap:
      name: {{ include "icemirror.configName" .root }}
  - name: tmp
    emptyDir: {sizeLimit: {{ .tmp }}}
  {{- with .root.Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
