from __future__ import annotations

import pytest

from spark_job.iceberg.vended_io import is_lent, renew_at


@pytest.mark.parametrize(
    ("config", "lent"),
    [
        ({}, False),
        ({"s3.endpoint": "http://store"}, False),
        ({"s3.session-token": "t"}, True),
        ({"gcs.oauth2.token": "t"}, True),
        ({"adls.sas-token.account.dfs.core.windows.net": "t"}, True),
    ],
)
def test_credentials_in_a_table_s_configuration_are_lent(config: dict[str, str], lent: bool) -> None:
    assert is_lent(config) is lent


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"s3.session-token-expires-at-ms": "1000000"}, 940.0),
        ({"s3.session-token-expires-at-ms": "110000"}, 105.0),
        ({"adls.sas-token-expires-at-ms.account": "500000", "gcs.oauth2.token-expires-at": "400000"}, 340.0),
        ({"s3.session-token-expires-at-ms": "50000"}, 100.0),
        ({"s3.session-token": "t"}, 400.0),
    ],
    ids=["a minute before", "half of a short loan", "the earliest", "over already", "not told"],
)
def test_a_loan_is_renewed_before_it_ends(config: dict[str, str], expected: float) -> None:
    assert renew_at(config, now=100.0) == pytest.approx(expected)
