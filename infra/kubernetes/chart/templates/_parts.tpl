{{- define "icemirror.labels" -}}
app.kubernetes.io/name: icemirror
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "icemirror.image" -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}

{{- /* The configuration: what the values say, over state and launcher of this release. */ -}}
{{- define "icemirror.config" -}}
{{- $namespace := .Release.Namespace -}}
{{- $state := dict "type" "kubernetes" "namespace" $namespace -}}
{{- $launcher := dict "type" "kubernetes" "namespace" $namespace "image" (include "icemirror.image" .Values.images.job) "service_account" (printf "%s-job" .Release.Name) -}}
{{- $ours := dict "trigger" (dict "state" $state "launcher" $launcher) -}}
{{- toYaml (mergeOverwrite $ours (deepCopy .Values.config)) -}}
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
{{- end }}

{{- define "icemirror.volumes" -}}
volumes:
  - name: config
    configMap:
      name: {{ include "icemirror.configName" .root }}
  - name: tmp
    emptyDir: {sizeLimit: {{ .tmp }}}
{{- end }}
