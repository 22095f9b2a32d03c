"""What others have written is shown without what looks like a secret."""

from __future__ import annotations

import pytest

from mirror.config.secrets import command_without_secrets, without_secrets


@pytest.mark.parametrize(
    "text",
    [
        "password=s3cret",
        "password=a,s3cret",
        "password=a;s3cret",
        '{"token": "s3cret", "user": "ann"}',
        "Authorization: Negotiate s3cret",
        "authorization: Bearer s3cret",
        "psql --pass s3cret",
        "psql --pass=s3cret",
        "DB_PASS=s3cret psql",
        "PASS=s3cret psql",
        "encrypt --key s3cret",
        "curl -u ann:s3cret there",
        "curl --user ann:s3cret there",
        "user:\n  password: |\n    s3cret\n    s3cret\n  name: ann",
        "password: >-\n  s3cret",
        "https://ann:s3cret@example.com",
        "https://ann:s3c/s3cret@example.com",
        "Endpoint=sb://there/;SharedAccessKey=s3cret=",
        "AccountKey=s3cret",
        "<password>s3cret</password>",
        "password => 's3cret'",
        "password\x1b[0m: s3cret",
        "ssl.keystore.key=s3cret",
        "-----BEGIN PRIVATE KEY-----\ns3cret",
    ],
)
def test_a_secret_in_a_text_is_hidden(text: str) -> None:
    assert "s3cret" not in without_secrets(text)
    assert "(hidden)" in without_secrets(text)


@pytest.mark.parametrize(
    "text", ["PASS: 3 tests passed", "key=value", "group audit -u", "https://example.com:80/a@b", "passed=3, failed=0"]
)
def test_what_is_none_is_shown(text: str) -> None:
    assert without_secrets(text) == text


def test_behind_a_block_the_text_is_shown() -> None:
    assert without_secrets("password: |\n  s3cret\nname: ann") == "password: (hidden)\nname: ann"


@pytest.mark.parametrize(
    "argv",
    [
        ("psql", "--pass", "s3cret"),
        ("psql", "-pass", "s3cret"),
        ("encrypt", "--key", "s3cret"),
        ("env", "DB_PASS=it's s3cret", "psql"),
        ("curl", "-u", "ann:s3cret"),
        ("sh", "-c", "psql password=a,s3cret"),
        ("sh", "-c", "curl -u ann:s3cret there"),
        ("client", "--password=a s3cret"),
        ("client", "--connection", "SharedAccessKey=s3cret"),
    ],
)
def test_a_secret_among_arguments_is_hidden(argv: tuple[str, ...]) -> None:
    assert "s3cret" not in command_without_secrets(argv)
