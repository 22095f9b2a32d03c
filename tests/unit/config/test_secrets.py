"""What others have written is shown without what looks like a secret."""

from __future__ import annotations

import time

import pytest

from mirror.config.secrets import HIDDEN, command_without_secrets, shown, without_secrets


@pytest.mark.parametrize(
    "text",
    [
        "password=s3cret",
        "password=a,s3cret",
        "password=a;s3cret",
        '{"token": "s3cret", "user": "ann"}',
        "Authorization: Negotiate s3cret",
        "authorization: Bearer s3cret",
        "basic.auth.user.info=ann:s3cret",
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
        "https://ann:9092/s3cret@example.com",
        "https://there/a?b=1&X-Amz-Signature=s3cret",
        'password := "s3cret"',
        "client -token s3cret",
        "client -Dfile=x -keystore-password s3cret",
        '<entry key="db.password">s3cret</entry>',
        "-----BEGIN PRIVATE KEY-----\ns3cret",
        '{"token":5,"password": "s3cret"}',
        '{"secret":null,"password":"my s3cret"}',
        '{"user":"a","passwordExpired":false,"password":"my s3cret","x":1}',
        "token=x,Authorization:Basic s3cret",
        'password=x;passphrase="my s3cret"',
        "token=a&password='my s3cret'",
        "password: |\r\n  s3cret",
        "password: |\n  a\n\n  s3cret",
        "password: |-2\n  s3cret",
        "password: |  # it\n  s3cret",
        "password: !!str |\n  s3cret",
        "password: !!str s3cret",
        "- name: DB_PASSWORD\n  value: s3cret",
        '{"name": "DB_PASSWORD", "value": "my s3cret"}',
        '{"env": "{\\"name\\":\\"TOKEN\\",\\"value\\":\\"s3cret\\"}"}',
        '<property name="ssl.key.password" value="s3cret"/>',
        "SASL_PASSWORD[0]=s3cret",
        'password="my s3cret',
        "password='my s3cret",
        "> Authorization: Splunk s3cret",
        "authorization: AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host, Signature=s3cret",
        "keytool -storepass s3cret -keypass s3cret",
        "openssl rsa -passin pass:s3cret",
        "ALTER USER ann WITH PASSWORD 's3cret'",
        "https://there/blob?sv=2026&sig=s3cret",
        "SharedAccessSignature=s3cret",
        "curl --proxy-user ann:s3cret --oauth2-bearer s3cret",
        "Set-Cookie: session=s3cret; HttpOnly",
        "encryption_key=s3cret",
        "MIIEpAIBAAs3cret\nAAAA\n-----END RSA PRIVATE KEY-----",
        "machine there login ann password s3cret",
        "ssl.key.password s3cret",
        "password is-s3cret",
        "the password is s3cret-7",
        "passphrase s3cret",
        "the token is s3cret77",
        "api_key AKIAs3cret77",
        "redis-cli --auth s3cret",
        "client --proxy-auth=s3cret",
        "client --password s3cret",
        "client -p s3cret",
        "client -p 's3cret 9092'",
        "client -p 9092s3cret",
        "client -p czNjcmV0s3cret==",
        "mysqldump -h there -u ann -ps3cret orders",
        "sshpass -ps3cret ssh there",
        "redis-cli -h there -a s3cret ping",
        "ldapsearch -x -D cn=ann -w s3cret",
        "jdbc:oracle:thin:ann/s3cret@there:1521/orders",
        "sqlplus ann/s3cret@there",
        "bootstrap.servers = ann:s3cret@there",
        "ann:p@s3cret@there:9092 does not answer",
    ],
)
def test_a_secret_in_a_text_is_hidden(text: str) -> None:
    assert "s3cret" not in without_secrets(text)
    assert "(hidden)" in without_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "PASS: 3 tests passed",
        "key=value",
        "group audit -u",
        "https://example.com:80/a",
        "passed=3, failed=0",
        "name: orders\nvalue: 5",
        "AAAA\n-----END CERTIFICATE-----\nready",
        "group audit -bypass",
        "authorization is off",
        "password is wrong",
        "password authentication failed for user ann",
        "Enter password\nready",
        "password: ",
        "the password, which is old",
        "password (hidden)",
        "unexpected token at line 3",
        "secret orders",
        "nc -p 9092 there",
        "docker run -p 8080:80/tcp nginx",
        "runbook run failover-drill -p flow=east",
        "mkdir -p /var/lib/app",
        "git@example.com:app",
        "User:ann@EXAMPLE.COM may not write",
        "there:9092, here:9093",
    ],
)
def test_what_is_none_is_shown(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "-" * 2000,
        "." * 2000,
        "token" * 400,
        "access_key" * 200,
        "pass_" * 400,
        "name=" * 400,
        "authorization:" * 200,
        "-pass " * 400,
        "name " * 400,
        "AAAA\n" * 400,
        'password="' * 200,
        "ann:" * 400,
        "password is " * 200,
        "mysql " * 400,
        "-p " * 400,
        "jdbc:oracle:thin:" * 200,
        "://" * 700,
        "-token" * 400,
        'token">' * 400,
    ],
)
def test_a_long_word_takes_no_longer_than_it_is_long(text: str) -> None:
    """During an outage the output of an application's command was looked through for a minute: the time went with the
    square of its length.
    """
    began = time.process_time()
    without_secrets(text)
    short = time.process_time() - began
    began = time.process_time()
    without_secrets(text * 10)
    assert time.process_time() - began < 40 * max(short, 0.01)


def test_behind_a_block_the_text_is_shown() -> None:
    assert without_secrets("password: |\n  s3cret\nname: ann") == "password: (hidden)\nname: ann"


@pytest.mark.parametrize(
    "argv",
    [
        ("psql", "--pass", "s3cret"),
        ("psql", "-pass", "s3cret"),
        ("keytool", "-storepass", "s3cret"),
        ("openssl", "rsa", "-passin", "pass:s3cret"),
        ("encrypt", "--key", "s3cret"),
        ("env", "DB_PASS=it's s3cret", "psql"),
        ("curl", "-u", "ann:s3cret"),
        ("curl", "--proxy-user", "ann:s3cret", "--oauth2-bearer", "s3cret"),
        ("sh", "-c", "psql password=a,s3cret"),
        ("sh", "-c", "curl -u ann:s3cret there"),
        ("client", "--password=a s3cret"),
        ("client", "--connection", "SharedAccessKey=s3cret"),
        ("redis-cli", "--auth", "s3cret"),
        ("client", "--auth=my s3cret"),
        ("client", "-p", "my s3cret"),
        ("/usr/bin/mysql", "-ps3cret"),
        ("/usr/bin/sshpass", "-ps3cret", "ssh", "there"),
        ("redis-cli", "-h", "there", "-a", "my s3cret", "ping"),
        ("ldapsearch", "-x", "-w", "my s3cret"),
        ("sqlplus", "ann/s3cret@there"),
    ],
)
def test_a_secret_among_arguments_is_hidden(argv: tuple[str, ...]) -> None:
    assert "s3cret" not in command_without_secrets(argv)


def test_ports_among_arguments_are_shown() -> None:
    assert command_without_secrets(("nc", "-p", "9092", "there")) == "nc -p 9092 there"


@pytest.mark.parametrize("key", ["metric.reporters.datadog.apiKey", "east.consumer.audit.accessToken", "DB_PASSWORD"])
def test_the_case_of_a_key_hides_no_secret_s_name(key: str) -> None:
    assert shown(key, "s3cret") == HIDDEN
