"""What IAM is asked about when a request reaches S3, and KMS where the object is encrypted."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree as ET

from tests.infra.calls import Call
from tests.services.fault_proxy import Request

_ARN = "arn:aws:s3:::"
_OF_CLIENTS = {"x-id"}  # tells what is asked for in words


def s3_calls(request: Request) -> Iterator[Call]:
    """The calls that a request of a bucket in the path comes to."""
    asked = urlsplit(request.path)
    bucket, _, key = unquote(asked.path).lstrip("/").partition("/")
    query = dict(parse_qsl(asked.query, keep_blank_values=True))
    names = frozenset(query) - _OF_CLIENTS
    if key:
        yield from _of_object(request, f"{bucket}/{key}", names)
    else:
        yield from _of_bucket(request, bucket, names, query)


def _of_object(request: Request, path: str, names: frozenset[str]) -> Iterator[Call]:
    given = {name.lower() for name in request.headers}
    match request.method, sorted(names):
        case (("GET" | "HEAD"), []):
            yield Call("s3:GetObject", _ARN + path)
        case "PUT", ([] | ["partNumber", "uploadId"]) if not given & {"x-amz-acl", "x-amz-tagging"}:
            yield Call("s3:PutObject", _ARN + path)
            if source := request.headers.get("x-amz-copy-source"):
                yield Call("s3:GetObject", _ARN + unquote(source).lstrip("/"))
        case "POST", (["uploads"] | ["uploadId"]):
            yield Call("s3:PutObject", _ARN + path)
        case "DELETE", ["uploadId"]:
            yield Call("s3:AbortMultipartUpload", _ARN + path)
        case "DELETE", []:
            yield Call("s3:DeleteObject", _ARN + path)
        case method, _:
            yield Call.unknown("s3", f"{method} {request.path}")


def _of_bucket(request: Request, bucket: str, names: frozenset[str], query: dict[str, str]) -> Iterator[Call]:
    match request.method, "delete" in names, "list-type" in names:
        case "HEAD", False, False:
            yield Call("s3:ListBucket", _ARN + bucket)
        case "GET", False, True:
            told = (("s3:prefix", query["prefix"]),) if "prefix" in query else ()
            yield Call("s3:ListBucket", _ARN + bucket, told)
        case "POST", True, False:
            for one in ET.fromstring(request.body).iter():  # noqa: S314 (our own client's)
                if one.tag.rpartition("}")[2] == "Key":
                    yield Call("s3:DeleteObject", f"{_ARN}{bucket}/{one.text}")
        case method, _, _:
            yield Call.unknown("s3", f"{method} {request.path}")


def kms_calls(call: Call, key: str) -> Iterator[Call]:
    """What S3 does with an object's key in the name of who asks for the object. A part of an upload is read as well."""
    if call.action in ("s3:GetObject", "s3:PutObject"):
        yield Call("kms:Decrypt", key)
    if call.action == "s3:PutObject":
        yield Call("kms:GenerateDataKey", key)
