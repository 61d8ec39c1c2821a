"""What requests on the wire come to, as IAM is asked about them, and what a recorder does with those."""

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
    told = Message()
    told["Authorization"] = f"AWS4-HMAC-SHA256 Credential=job/20260101/r/{service}/aws4_request, Signature=x"
    for name, value in headers.items():
        told[name.replace("_", "-")] = value
    return Request(method, path, told, body)


def asked(request: Request) -> set[Call]:
    recorder = Recorder("1", "r", lambda role, call: True)
    assert recorder.note(request) is None
    return recorder.asked["job"].calls


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
def test_an_object_is_asked_for(method: str, path: str, action: str, key: str) -> None:
    assert asked(signed("s3", method, path)) == {Call(action, f"{LAKE}/{key}")}


def test_a_bucket_is_asked_for() -> None:
    listed = asked(signed("s3", "GET", "/lake?list-type=2&prefix=a%2F"))
    assert listed == {Call("s3:ListBucket", LAKE, (("s3:prefix", "a/"),))}
    assert asked(signed("s3", "GET", "/lake/?list-type=2")) == {Call("s3:ListBucket", LAKE)}
    assert asked(signed("s3", "HEAD", "/lake")) == {Call("s3:ListBucket", LAKE)}


def test_many_are_deleted_at_once() -> None:
    gone = asked(signed("s3", "POST", "/lake?delete", BULK))
    assert gone == {Call("s3:DeleteObject", f"{LAKE}/a/{one}") for one in (1, 2)}


def test_a_copy_reads_its_source() -> None:
    copied = asked(signed("s3", "PUT", "/lake/a/1", x_amz_copy_source="/other/b"))
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
)
def test_what_nobody_knows_is_allowed_by_no_policy(request_: Request) -> None:
    (call,) = asked(request_)
    assert call.action.endswith(":?")


def test_catalog_and_state_are_asked_for() -> None:
    body = json.dumps({"DatabaseName": "shop", "Name": "orders"}).encode()
    found = asked(signed("glue", "POST", "/", body, X_Amz_Target="AWSGlue.GetTable"))
    names = ("catalog", "database/shop", "table/shop/orders")
    assert found == {Call("glue:GetTable", f"{GLUE}:{name}") for name in names}
    body = json.dumps({"TableName": "state"}).encode()
    found = asked(signed("dynamodb", "POST", "/", body, X_Amz_Target="DynamoDB_20120810.Query"))
    assert found == {Call("dynamodb:Query", "arn:aws:dynamodb:r:1:table/state")}


def test_a_launch_needs_the_jobs_role_its_tags_and_the_key_of_its_disks() -> None:
    disks = {"diskEncryptionConfiguration": {"encryptionKeyArn": "arn:key"}}
    body = {"executionRoleArn": "arn:role", "tags": {"a": "b"}, "configurationOverrides": disks}
    found = asked(signed("emr-serverless", "POST", "/applications/0a/jobruns", json.dumps(body).encode()))
    assert found == {
        Call("emr-serverless:StartJobRun", EMR),
        Call("emr-serverless:TagResource", f"{EMR}/jobruns/new"),
        Call("iam:PassRole", "arn:role", (("iam:PassedToService", "emr-serverless.amazonaws.com"),)),
        Call("kms:DescribeKey", "arn:key"),
    }


def test_what_is_not_allowed_is_refused_and_kept() -> None:
    recorder = Recorder("1", "r", lambda role, call: call.action != "s3:DeleteObject")
    assert recorder.note(signed("s3", "GET", "/lake/a")) is None
    refused = recorder.note(signed("s3", "DELETE", "/lake/a"))
    assert refused is not None
    assert refused[0] == 403
    assert recorder.asked["job"].refused == {Call("s3:DeleteObject", f"{LAKE}/a")}
