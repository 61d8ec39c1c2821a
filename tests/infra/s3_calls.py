"""The IAM calls that a request to S3 needs, and the KMS calls if the object is encrypted."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree as ET

from tests.infra.calls import Call
from tests.services.fault_proxy import Request

_ARN = "arn:aws:s3:::"
_CLIENT_PARAMETERS = {"x-id"}  # repeats the operation's name


def s3_calls(request: Request) -> Iterator[Call]:
    """Yield the IAM calls of a path-style request."""
    url = urlsplit(request.path)
    bucket, _, key = unquote(url.path).lstrip("/").partition("/")
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    names = frozenset(query) - _CLIENT_PARAMETERS
    if key:
        yield from _object_calls(request, f"{bucket}/{key}", names)
    else:
        yield from _bucket_calls(request, bucket, names, query)


def _object_calls(request: Request, path: str, names: frozenset[str]) -> Iterator[Call]:
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


def _bucket_calls(
    request: Request, bucket: str, names: frozenset[str], query: dict[str, str]
) -> Iterator[Call]:
    match request.method, "delete" in names, "list-type" in names:
        case "HEAD", False, False:
            yield Call("s3:ListBucket", _ARN + bucket)
        case "GET", False, True:
            context = (("s3:prefix", query["prefix"]),) if "prefix" in query else ()
            yield Call("s3:ListBucket", _ARN + bucket, context)
        case "POST", True, False:
            for element in ET.fromstring(request.body).iter():  # noqa: S314 (a request of our client)
                if element.tag.rpartition("}")[2] == "Key":
                    yield Call("s3:DeleteObject", f"{_ARN}{bucket}/{element.text}")
        case method, _, _:
            yield Call.unknown("s3", f"{method} {request.path}")


def kms_calls(call: Call, key: str) -> Iterator[Call]:
    """Yield the KMS calls that S3 makes for the caller. Uploads also decrypt, for their parts."""
    if call.action in ("s3:GetObject", "s3:PutObject"):
        yield Call("kms:Decrypt", key)
    if call.action == "s3:PutObject":
        yield Call("kms:GenerateDataKey", key)
