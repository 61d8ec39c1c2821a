"""Requests become the calls that IAM evaluates, and the recorder refuses those that are not allowed."""

from __future__ import annotations

import json
from email.message import Message

import pytest

from tests.infra.calls import Call
from tests.infra.recorded_calls import Recorder
from tests.services.fault_proxy import Request

LAKE = "arn:aws:s3:::lake"
BULK = b"<Delete xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Object><Key>a/1</Key></Object><Object><Key>a/2</Key></Object></Delete>"
GLUE, EMR = "arn:aws:glue:r:1", "arn:aws:emr-serverless:r:1:/applications/0a"


def signed(service: str, method: str, path: str, body: bytes = b"", **headers: str) -> Request:
    fields = Message()
    fields["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential=job/20260101/r/{service}/aws4_request, Signature=x"
    )
    for name, value in headers.items():
        fields[name.replace("_", "-")] = value
    return Request(method, path, fields, body)


def calls(request: Request) -> set[Call]:
    recorder = Recorder("1", "r", lambda role, call: True)
    assert recorder.record(request) is None
    return recorder.calls_of["job"].calls


@pytest.mark.parametrize(
    ("method", "path", "action", "key"),
    [
        ("GET", "/lake/a/b%3D1.parquet", "s3:GetObject", "a/b=1.parquet"),
        ("HEAD", "/lake/a/1", "s3:GetObject", "a/1"),
        ("PUT", "/lake/a/1", "s3:PutObject", "a/1"),
        ("PUT", "/lake/a/", "s3:PutObject", "a/"),
        ("POST", "/lake/a/1?uploads", "s3:PutObject", "a/1"),
        ("PUT", "/lake/a/1?partNumber=1&uploadId=u", "s3:PutObject", "a/1"),
        ("POST", "/lake/a/1?uploadId=u", "s3:PutObject", "a/1"),
        ("DELETE", "/lake/a/1?uploadId=u", "s3:AbortMultipartUpload", "a/1"),
        ("DELETE", "/lake/a/1?x-id=DeleteObject", "s3:DeleteObject", "a/1"),
    ],
)
def test_object_request_is_recorded_as_its_action(method: str, path: str, action: str, key: str) -> None:
    assert calls(signed("s3", method, path)) == {Call(action, f"{LAKE}/{key}")}


def test_bucket_request_is_recorded_with_its_prefix() -> None:
    listed = calls(signed("s3", "GET", "/lake?list-type=2&prefix=a%2F"))
    assert listed == {Call("s3:ListBucket", LAKE, (("s3:prefix", "a/"),))}
    assert calls(signed("s3", "GET", "/lake/?list-type=2")) == {Call("s3:ListBucket", LAKE)}
    assert calls(signed("s3", "HEAD", "/lake")) == {Call("s3:ListBucket", LAKE)}


def test_bulk_delete_is_recorded_per_object() -> None:
    deleted = calls(signed("s3", "POST", "/lake?delete", BULK))
    assert deleted == {Call("s3:DeleteObject", f"{LAKE}/a/{number}") for number in (1, 2)}


def test_copy_is_recorded_with_a_read_of_its_source() -> None:
    copied = calls(signed("s3", "PUT", "/lake/a/1", x_amz_copy_source="/other/b"))
    assert copied == {Call("s3:PutObject", f"{LAKE}/a/1"), Call("s3:GetObject", "arn:aws:s3:::other/b")}


@pytest.mark.parametrize(
    "request_",
    [
        signed("s3", "GET", "/lake/a/1?acl"),
        signed("s3", "PUT", "/lake?policy"),
        signed("s3", "PUT", "/lake/a/1", x_amz_acl="public-read"),
        signed("emr-serverless", "PATCH", "/applications/0a"),
        signed("ec2", "POST", "/"),
    ],
    ids=["get acl", "put policy", "put with acl", "update application", "other service"],
)
def test_unknown_request_is_allowed_by_no_policy(request_: Request) -> None:
    (call,) = calls(request_)
    assert call.action.endswith(":?")


def test_catalog_and_state_requests_are_recorded_with_their_resources() -> None:
    body = json.dumps({"DatabaseName": "shop", "Name": "orders"}).encode()
    found = calls(signed("glue", "POST", "/", body, X_Amz_Target="AWSGlue.GetTable"))
    names = ("catalog", "database/shop", "table/shop/orders")
    assert found == {Call("glue:GetTable", f"{GLUE}:{name}") for name in names}
    body = json.dumps({"TableName": "state"}).encode()
    found = calls(signed("dynamodb", "POST", "/", body, X_Amz_Target="DynamoDB_20120810.Query"))
    assert found == {Call("dynamodb:Query", "arn:aws:dynamodb:r:1:table/state")}


def test_launch_is_recorded_with_role_tags_and_disk_key() -> None:
    disks = {"diskEncryptionConfiguration": {"encryptionKeyArn": "arn:key"}}
    body = {"executionRoleArn": "arn:role", "tags": {"a": "b"}, "configurationOverrides": disks}
    found = calls(signed("emr-serverless", "POST", "/applications/0a/jobruns", json.dumps(body).encode()))
    assert found == {
        Call("emr-serverless:StartJobRun", EMR),
        Call("emr-serverless:TagResource", f"{EMR}/jobruns/new"),
        Call("iam:PassRole", "arn:role", (("iam:PassedToService", "emr-serverless.amazonaws.com"),)),
        Call("kms:DescribeKey", "arn:key"),
    }


def test_forbidden_call_is_refused_and_recorded() -> None:
    recorder = Recorder("1", "r", lambda role, call: call.action != "s3:DeleteObject")
    assert recorder.record(signed("s3", "GET", "/lake/a")) is None
    refused = recorder.record(signed("s3", "DELETE", "/lake/a"))
    assert refused is not None
    assert refused[0] == 403
    assert recorder.calls_of["job"].refused == {Call("s3:DeleteObject", f"{LAKE}/a")}
