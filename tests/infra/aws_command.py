"""As much of AWS' command line as our scripts use, over boto3: `aws SERVICE OPERATION --option value… --query PATH`."""

from __future__ import annotations

import sys

import boto3
import jmespath
from botocore import xform_name

LISTS = ("states",)


def main(arguments: list[str]) -> int:
    service, operation, *rest = arguments
    options: dict[str, list[str]] = {}
    for word in rest:
        if word.startswith("--"):
            options[word[2:]] = []
            last = word[2:]
        else:
            options[last].append(word)
    query = options.pop("query", None)
    options.pop("output", None)
    client = boto3.client(service)
    method = operation.replace("-", "_")
    shape = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method]).input_shape
    names = {xform_name(name, "-"): name for name in shape.members}
    given = {names[key]: value if key in LISTS else value[0] for key, value in options.items()}
    answer = getattr(client, method)(**given)
    if query:
        found = jmespath.search(query[0], answer)
        print("\t".join(found) if isinstance(found, list) else found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
