"""The part of the AWS CLI that our scripts use, on boto3: `aws SERVICE OPERATION --option value… --query PATH`."""

from __future__ import annotations

import json
import sys

import boto3
import jmespath
from botocore import xform_name

LISTS = ("states",)
SERVICES = {"s3api": "s3"}


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
    as_json = options.pop("output", None) == ["json"]
    client = boto3.client(SERVICES.get(service, service))
    method = operation.replace("-", "_")
    shape = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method]).input_shape
    names = {xform_name(name, "-"): name for name in shape.members}
    given: dict[str, object] = {}
    for option, words in options.items():
        name = names[option]
        is_json = shape.members[name].type_name == "structure"
        given[name] = words if option in LISTS else json.loads(words[0]) if is_json else words[0]
    response = getattr(client, method)(**given)
    response.pop("ResponseMetadata")
    found = jmespath.search(query[0], response) if query else response
    if as_json:
        print(json.dumps(found))
    elif query:
        print("\t".join(found) if isinstance(found, list) else found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
