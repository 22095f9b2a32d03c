"""What secrets look like in what other programs print: behind names, options and statements, or by themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Rule:
    """What stands before a secret in a text, and stays there, and what the secret itself looks like.

    Neither has groups of its own. Whatever is repeated is bounded: what others print may be one long word.
    """

    name: str
    before: str
    secret: str


_QUOTED = r"""\\+"[^"]*"|"(?:[^"\\]|\\.)*"|N?'[^']*'"""
# A block of YAML: "password: |", and the lines that are indented behind it, or empty.
_BLOCK = r"(?:!!str\s+)?[|>][\d+-]*[ \t]*(?:#[^\n]*)?(?:\r?\n(?:[ \t]+[^\r\n]*|(?=\r?\n)))+"
# Commas and semicolons too may be of a secret, unless another name follows them.
_MORE = r"""(?:[^\s,;&]|[,;&](?!\\*["']?[\w.-]{1,64}\\*["']?\s*[=:]))*"""
# A quote that is not closed: the rest of it was cut off.
_UNCLOSED = r"""["'][^\r\n]*"""
_VALUE = (
    rf"""(?:{_QUOTED}|{_BLOCK}|(?:(?:Bearer|Basic|Digest|Token|ApiKey|Negotiate|NTLM)\s+|!!?[\w./-]{{1,64}}\s+)?"""
    rf"""[^\s"']{_MORE}|{_UNCLOSED})"""
)
# A word of letters and digits, as nobody writes them but for a secret.
_MADE = r"(?=\S{0,128}\d)(?=\S{0,128}[a-z])\S{8,}"
_END_OF_WORD = r"(?:\s|\Z)"
# What tells of a secret in a name. Within a text it is of no account how the name begins.
_TELLING = (
    r"(?:passw(?:or)?d|pwd|passphrase|passcode|passkey|secret|token|credential|user[._]info|(?:api|private|access|account"
    r"|encryption|signing|master|shared|hmac|license|app(?:lication)?)[._-]?key|confluent\.license|(?:stored|server)_key"
    r"|client-key-data|sharedaccesssignature|keystore\.key|authorization)"
)
_ENDING = rf"{_TELLING}[\w.-]{{0,64}}"
NAMED = rf"[\w.-]{{0,64}}{_ENDING}"
# DB_PASS and dbPass; "PASS" alone is what a test says.
SHORT = r"(?:\b\w[\w.-]{0,64}[_.-]pass|\b\w{0,64}[a-z](?-i:Pass)\b)"
_ANY = rf"(?:{NAMED}|{SHORT})"
_SIGN = r"""(?:\[\w*\])?(?:\x1b\[[\d;]*m)?(?:\\*["']?\s*(?:::?=|::|->|[=:]>?)\s*|["']?>)"""
# Names of one program each, which nothing else has.
_SINGLE = rf"\b(?:(?:rediscli_auth|sshpass){_SIGN}|(?:requirepass|masterauth|bindpw|(?:olc)?rootpw)(?:{_SIGN}|[ \t]+))"
OF_KEYTOOL = r"\w{0,16}pass(?:in|out)?"
OF_AUTH = r"(?:[\w-]{1,32}-)?auth"
# What may stand behind "password" in a sentence: "password is wrong", "password authentication failed".
_ORDINARY_WORDS = (
    "a all also an and any are as at be been before being but by can cannot could did do does for from had has have if "
    "in is isn't it its may might must my no not of on only or per shall should than that the their this to too until "
    "via was wasn't were when where which while will with without would your "
    "accepted bad change changed changes correct denied empty encrypted expired expires failed given hidden incorrect "
    "invalid mismatch missing needed protected provided refused rejected required reset saved set specified stored "
    "supplied unset updated used wrong "
    "auth authentication based callback check config configuration encoder entry field file hash length login manager "
    "option parameter policy prompt property provider rotation setting store update value verification"
)
_ORDINARY = rf"""(?:{"|".join(_ORDINARY_WORDS.split())})(?=[.,;:!?)"']{{0,8}}{_END_OF_WORD})"""
# What topics and groups about secrets are called: "password-resets", and "user-tokens-0".
_OF_TOPICS = (
    "resets? events? requests? changes? changed updates? rotations? audits? created deleted expired issued revoked "
    "commands notifications mails emails history logs? streams? topic changelog repartition retry retries dlq"
)
_TOPIC = (
    rf"{_TELLING}(?:s?[.-](?:{'|'.join(_OF_TOPICS.split())})(?![\w.-]{{0,64}}{_TELLING})(?:[.-][\w.-]{{0,64}})?|s-\d{{1,5}})"
    r"(?![\w.-]|\s*=(?!\d{1,19}\b))"
)
# What Java calls its errors: a TopicAuthorizationException, and what it says.
_OF_JAVA = rf"{_TELLING}\w{{0,32}}(?-i:Exception|Error)(?=:)"
# Programs whose -p is no password: of the first ones behind options alone, of the others behind words too.
_OPEN_P = (
    r"\b(?:(?:mkdir|cp|read|unzip|ps|tar|journalctl|lsof|patch|pgrep|rsync|nmap)(?:[ \t]+-[\w-]{1,16}){0,4}?"
    r"|(?:systemctl[ \t]+show|kubectl[ \t]+patch|docker[ -]compose|git[ \t]+(?:log|show|diff))"
    r"(?:[ \t]+(?!\S{0,64}(?:pass|pw|token|secret|key|[=:@]))\S{1,64}){0,3}?)[ \t]+(?-i:-p)(?=[ \t])"
)
# The working directory.
_DIRECTORY = r"(?<![\w.-])(?-i:(?:OLD)?PWD)=(?=/)"
# What -p is followed by where it is no password: ports (9092, 8080:80/tcp), and name=value.
_OPEN_BEHIND_P = r"""(?:[\d:./,-]+(?:/(?:tcp|udp))?(?=\s|\Z)|[a-z_][\w.-]{0,64}=[^\s=])"""
# Of "pass" in YAML: what tests say.
_OPEN_BEHIND_PASS = rf"""(?:\d+|true|false|yes|no|ok|none|null){_END_OF_WORD}"""
_SHORT_QUOTED = r"""(?:"[^"\n]{0,64}"|'[^'\n]{0,64}')"""
# A command up to one of its options.
_WORDS = r"[ \t]+(?:[^\s|;]{1,128}[ \t]+){0,12}?"
# The options, the programs of which they are a password, and what may be behind it: a blank behind -p is of another
# rule, since mysql then asks for the password.
_OF_PROGRAMS = (
    ("p", r"(?:mysql|mariadb|mongo)[\w-]{0,16}|sshpass|7z[arz]?", r"(?!\s)"),
    ("a", r"redis-cli|ldappasswd", r"[ \t]*"),
    ("w", r"ldap[a-z]{2,16}", r"[ \t]*"),
    ("P", r"sqlcmd|bcp|isql|osql|tsql|ipmitool|mosquitto_\w{3}|zip|unzip|ssh-keygen", r"[ \t]*"),
    ("N", r"ssh-keygen", r"[ \t]+"),
    ("s", r"ldappasswd", r"[ \t]+"),
    ("[kK]", r"openssl", r"[ \t]+"),
    ("[cAX]", r"snmp\w{1,16}", r"[ \t]+"),
    (r"[a-zA-Z]{0,8}u", r"curl", r"[ \t]*[^\s:]{1,64}:"),
    ("a", r"https?", r"[ \t]+[^\s:]{1,64}:"),
    ("u", r"lftp", r"[ \t]+[^\s,]{1,64},"),
)
_BY_PROGRAM = tuple(
    _Rule(f"of_program_{number}", rf"(?<![\w-])(?:{programs}){_WORDS}(?-i:-{option}){behind}", _VALUE)
    for number, (option, programs, behind) in enumerate(_OF_PROGRAMS)
)
# Behind "echo ... |": what reads a password from there.
_READERS = r"(?:sudo\s+(?:-\w+\s+)?(?-i:-\w{0,8}S)|chpasswd|passwd|kinit|(?:[^\s|;]{1,64}\s+){1,8}?--?[\w-]{0,16}stdin)"
# A secret by its place among the words of a command.
_BY_PLACE = (
    _Rule("rabbitmq", rf"\brabbitmqctl{_WORDS}(?:add_user|(?:change|authenticate)_(?:user|password))\s+\S+\s+", _VALUE),
    _Rule(
        "htpasswd",
        rf"\bhtpasswd{_WORDS}-\w{{0,8}}b\w{{0,8}}(?:[ \t]+\S{{1,128}}){{1,5}}[ \t]+",
        r"[^\s|;]+(?=\s*(?:[|;\r\n]|\Z))",
    ),
    _Rule("vault_login", r"\bvault\s+(?:login|operator\s+unseal)\s+(?!-|\w{1,16}=)", _VALUE),
    _Rule(
        "vault_values", r"\bvault\s+(?:kv\s+(?:put|patch)|write)\s+(?:-\S{1,64}\s+){0,4}[^\s=]{1,128}\s+", r"[^\r\n]+"
    ),
    _Rule(
        "curl_cookie",
        rf"\bcurl{_WORDS}(?:(?-i:-b)|--cookie)[ \t=]+",
        r""""[^"=\r\n]{1,64}=[^"\r\n]*"|'[^'=\r\n]{1,64}=[^'\r\n]*'|[^\s"'=]{1,64}=\S+""",
    ),
    _Rule("redis", rf"\bredis-cli{_WORDS}auth\s+", r"[^\r\n|;]+"),
    _Rule("mc", r"\bmc\s+(?:alias\s+set|config\s+host\s+add)\s+\S{1,128}\s+\S{1,256}\s+", r"\S+[ \t]+\S+"),
    _Rule("api_key", r"\bapi-key\s+store\s+(?!-)\S{1,128}\s+", _VALUE),
    _Rule("obscured", r"\b(?:rclone\s+obscure|openssl\s+passwd(?:\s+-\w{1,16}){0,4})\s+(?!-)", _VALUE),
    _Rule("literal", r"--from-literal(?:=|\s+)[\w.-]{1,128}=", _VALUE),
    _Rule("literal_quoted", r"""--from-literal(?:=|\s+)["'][\w.-]{1,128}=""", r"""[^"'\r\n]+"""),
    _Rule("configure", rf"\b(?:configure\s+set|setx|env)[ \t]+{_ANY}[ \t]+", _VALUE),
    _Rule("secure_string", r"\bConvertTo-SecureString\s+(?:-String\s+)?(?!-)", _VALUE),
    # smbclient -U ann%..., curl --cert ann.pem:...
    _Rule("user_percent", r"(?<!\S)(?-i:-U)\s*[^\s%]{1,64}%", _VALUE),
    _Rule("certificate", rf"\bcurl{_WORDS}(?:(?-i:-E)|--(?:proxy-)?cert)[ \t=]+[^\s:]{{1,256}}:", _VALUE),
    # echo ... | sudo -S
    _Rule(
        "echo",
        r"\b(?:echo|printf)\s+(?:-\w\s+|'%s(?:\\n)?'\s+){0,2}",
        rf"""(?:{_SHORT_QUOTED}|[^\s"'|]{{1,128}})(?=\s*\|\s*{_READERS})""",
    ),
)
_STATEMENTS = (
    # ALTER USER ... PASSWORD '...', PASSWORD('...'), setPassword("..."), SET PASSWORD FOR 'ann' = '...'
    _Rule("sql", r"\bpassword\s+(?=N?'|\$\$)", _VALUE),
    _Rule("sql_call", rf"passw(?:or)?d\(\s*(?:{_SHORT_QUOTED}\s*,\s*)?(?=[\"'])", _VALUE),
    _Rule("sql_for", r"\bpassword\s+for\s+\S{1,128}\s*=\s*", _VALUE),
    # IDENTIFIED BY "...", IDENTIFIED WITH mysql_native_password BY '...'; a topic "identified by its id" is none.
    _Rule(
        "identified",
        r"\b(?:identified\s+(?:with\s+\S{1,64}\s+)?(?:by|as)\s+(?:(?:values|password)\s+)?(?=[\"'])"
        r"|(?:create|alter)\s+(?:user|role)\s+\S{1,128}\s+identified\s+by\s+(?!(?:values|password)\s))",
        rf"{_VALUE}(?:\s+replace\s+{_VALUE})?",
    ),
    _Rule("connect", r"\bconnect\s+to\s+\S{1,64}\s+user\s+\S{1,64}\s+using\s+", _VALUE),
    # db.auth("ann", "..."), new PSCredential("ann", "...")
    _Rule("call", rf"(?:\bauth|credential)\(\s*{_SHORT_QUOTED}\s*,\s*(?=[\"'])", _VALUE),
)
_OF_KAFKA = (
    # All options of a login module: of those of a server each user's name is an option of its own.
    _Rule(
        "jaas",
        r"LoginModule\s+(?:required|requisite|sufficient|optional)\s+",
        r"""(?:[\w.-]{1,64}\s{0,8}=\s{0,8}(?:\\+"[^"]*"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s;"']+)\s{0,64})+""",
    ),
    # user_ann="..." of such a module, by itself
    _Rule("jaas_user", r"""\buser_(?!(?:name|id|agent|group|type|role|email|dn)\b)[\w.@-]{1,64}=(?=\\*["'])""", _VALUE),
    # addauth digest ann:..., setAcl / digest:ann:...:cdrwa; "digest: sha256:..." is of an image.
    _Rule("digest", r"""\bdigest["',:\s]{1,8}(?!sha\d|md5)[\w.@-]{1,64}:""", r"[^\s:,]{1,512}"),
)
# Whatever stands before them: a JSON web token, and what others begin theirs with.
_SHAPES = (
    r"eyJ[\w-]{8,1024}\.[\w-]{4,}\.[\w-]*|gh[opsur]_\w{20,}|github_pat_\w{20,}|glpat-[\w.-]{16,}|xox[abeoprs]-[\w-]{10,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}\b|AIza[\w-]{30,}|ya29\.[\w-]{20,}|npm_\w{30,}|dckr_pat_[\w-]{20,}|dapi[0-9a-f]{32}",
    r"hv[bsr]\.[\w-]{8,}|[sr]k_(?:live|test)_\w{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|cflt[\w+/]{40,}|AGE-SECRET-KEY-1\w{20,}",
    # of a delegation token of Kafka: 64 bytes in base 64
    r"(?<![+/-])[A-Za-z0-9+/]{86}==",
)
_ORACLE = r"\b(?:sqlplus|rman|sqlldr|expdp|impdp)(?:[ \t]+-\w{1,8}|[ \t]+target){0,4}[ \t]+[\w$#]{1,64}/"
_NAME_AND_SIGN = r"""(?:name|key)\\*["']?\s*[:=]\s*\\*["']?"""
_VALUE_AND_SIGN = r"""value\\*["']?\s*[:=]\s*"""
_RULES = (
    # Authorization: Basic ..., Cookie: a=..; b=..: the whole line.
    _Rule("header", r"\b(?:authorization|(?:set-)?cookie)\s*:\s*", r"""[^\s"'][^\r\n"']*"""),
    # Name and value as two fields, as of variables in YAML, JSON and XML, in either order.
    _Rule("fields", rf"""\b{_NAME_AND_SIGN}{_ANY}\\*["']?\s*(?:,\s*)?\\*["']?{_VALUE_AND_SIGN}""", _VALUE),
    _Rule(
        "fields_turned",
        rf"\b{_VALUE_AND_SIGN}",
        rf"""(?:{_QUOTED}|[^\s"',]{{1,512}})(?=\s*(?:,\s*)?\\*["']?{_NAME_AND_SIGN}{_ANY}\\*["']?(?:[\s,}}/>]|\Z))""",
    ),
    # <name>...password</name><value>..., <setting name="ApiKey" ...><value>...
    _Rule(
        "elements",
        rf"""(?:<name>\s*{_ANY}\s*</name>|\bname=["']{_ANY}["'][^<>]{{0,128}}>)\s*<value>\s*""",
        r"[^\s<][^<]*",
    ),
    # "password=... ..." in quotes of its own, and ;Password=... ...; between others
    _Rule("quoted_double", rf'"{_ANY}=', r'(?:[^"\\\r\n]|\\.)+(?=")'),
    _Rule("quoted_single", rf"'{_ANY}=", r"[^'\r\n]+(?=')"),
    _Rule(
        "connection", r"""(?<![\w.-])(?:password|pwd)\s?=\s?""", r"""\{[^}\r\n]+\}|[^;"'\r\n]{1,128}(?=;[\w ]{1,64}=)"""
    ),
    *_STATEMENTS,
    # password=..., "token": "...", <password>...
    _Rule("assignment", rf"{_ENDING}{_SIGN}", _VALUE),
    # DB_PASS=..., db_pass: ..., "pass": "..."; "PASS: 3 tests" is none.
    _Rule("short_assignment", rf"""{SHORT}(?:\s{{0,8}}[=:]\s{{0,8}}(?!{_OPEN_BEHIND_PASS})|\\*["']\s*:\s*)""", _VALUE),
    _Rule("pass_assignment", r"""\bpass(?:=|\\*["']\s*:\s*)""", _VALUE),
    _Rule(
        "pass_line", rf"(?:\A|(?<=\n))[ \t-]{{0,32}}(?-i:pass):[ \t]+(?!{_OPEN_BEHIND_PASS})", r"\S+(?=\s*?(?:\n|\Z))"
    ),
    # REDISCLI_AUTH=..., requirepass ...: nothing else has these names.
    _Rule("single", _SINGLE, _VALUE),
    _Rule("npm", r"(?<!\w)_auth=", _VALUE),
    # basicAuth: ann:...
    _Rule("basic", rf"\b(?:basic[._-]?auth|auth[._-]basic){_SIGN}(?=\\*[\"']?[^\s:\"']{{1,64}}:)", _VALUE),
    # "auth": "...": in base 64, of Docker
    _Rule("docker", r"""["']auth["']\s*:\s*""", r"""["'][\w+/]{12,}={0,2}["']"""),
    # | API Secret | ... |, Unseal Key 1: ...
    _Rule("table", rf"(?:{_TELLING}|\b(?:api|access|secret) key)\s{{0,64}}\|\s{{0,64}}(?={_MADE})", r"[^\s|]+"),
    _Rule("unseal", r"\bunseal key \d+:\s*", r"\S+"),
    # --db-password ..., -token ..., --api-key ..., --pass=..., --auth ...
    _Rule(
        "option",
        rf"(?:--|(?<!\S)-){NAMED}\s+|--(?:[\w-]{{0,32}}-)?(?:pass|key|hmac)(?:\s+|=)|--{OF_AUTH}(?:\s+|=)",
        _VALUE,
    ),
    # -storepass ... of keytool, -passin ... of openssl, -pw ... of nodetool
    _Rule("java_option", rf"(?<!\S)-(?:{OF_KEYTOOL}|pw)\s+(?!\d+(?:\s|\Z))", _VALUE),
    # -p ..., -p=...
    _Rule("p_option", rf"(?<!\S)(?-i:-p)(?:[ \t]+|=)(?!-|{_OPEN_BEHIND_P})", _VALUE),
    # curl -u ann:..., --oauth2-bearer ...; --user 1000:1000 is of docker.
    _Rule(
        "curl",
        r"(?<!\S)(?:-u|--(?:proxy-)?user)[\s=]*(?!\d{1,9}:\d{1,9}(?:\s|\Z))[^\s:\"']{1,64}:|(?<!\S)--oauth2-bearer\s+",
        _VALUE,
    ),
    _Rule(
        "curl_quoted",
        r"(?<!\S)(?:-u|--(?:proxy-)?user)[\s=]*",
        r""""[^"\s:]{1,64}:[^"\r\n]*"|'[^'\s:]{1,64}:[^'\r\n]*'""",
    ),
    _Rule("bearer", r"\bBearer\s+", _VALUE),
    _Rule(
        "webhook",
        r"\b(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks|outlook\.office\.com/webhook"
        r"|[\w-]{1,64}\.webhook\.office\.com/webhookb2)/|\bapi\.telegram\.org/bot",
        r"\S+",
    ),
    _Rule("signature", r"[?&](?:X-\w{1,16}-)?sig(?:nature)?=", _VALUE),
    *_OF_KAFKA,
    *_BY_PROGRAM,
    *_BY_PLACE,
    # password ..., as in .netrc, and "the password is ..."
    _Rule("password", rf"passw(?:or)?d[ \t]+(?![-(\[<|,;.)]|{_ORDINARY})|passphrase[ \t]+(?!{_ORDINARY})", _VALUE),
    # Password for ann: ..., to the end of the line: what asks for it stands before other words.
    _Rule("asked", r"pass(?:word|phrase) for (?:user |key )?[^\s:]{1,128}(?::| is)[ \t]+", r"\S+(?=\s*?(?:\n|\Z))"),
    _Rule("said", rf"{_ENDING}[ \t]+(?:(?:is|was|to)[ \t]+)?(?={_MADE})", r"\S+"),
    # jdbc:oracle:thin:ann/...@there, sqlplus ann/..., connect ann/...@there, or that argument alone
    _Rule(
        "oracle",
        rf"(?:\bjdbc:oracle:\w{{1,16}}:|\A|\bconn(?:ect)?[ \t]+)[^\s/@:]{{1,64}}/|{_ORACLE}",
        r"""\S{1,512}(?=@)|(?<=/)"[^"\r\n]+"(?=@)""",
    ),
    _Rule("oracle_here", rf"{_ORACLE}|\bconn(?:ect)?[ \t]+[\w$#]{{1,64}}/(?=\S+ as sys)", r"[^\s@]+"),
    # ann:...@there; User:ann@REALM is a principal.
    _Rule("login", r"(?<![\w.-])(?!(?-i:User):)[\w.+-]{1,64}:(?!//)", r"\S{1,512}(?=@[\w\[])"),
    # there:5432:orders:ann:..., of .pgpass
    _Rule("pgpass", r"(?<!\S)[\w.*-]{1,128}:(?:\d{4,5}|\*):(?:[a-z][\w-]{0,64}|\*):[a-z][\w-]{0,64}:", r"\S+"),
)
HIDDEN = "(hidden)"
# Behind quotes and blanks, and behind what stands for these in an argument of a command.
_NOT_HIDDEN = rf"""(?![\s"'\U000f0000-\U000fffff]{{0,8}}{re.escape(HIDDEN)})"""
_IN_TEXT = re.compile(
    "|".join(
        (
            f"(?P<open>{_TOPIC}|{_OF_JAVA}|{_OPEN_P}|{_DIRECTORY})",
            *(f"(?P<{each.name}>{each.before}){_NOT_HIDDEN}(?:{each.secret})" for each in _RULES),
            f"(?P<shape>)(?<![A-Za-z0-9])(?-i:{'|'.join(_SHAPES)})",
        )
    ),
    re.IGNORECASE,
)
# How often a text is looked through: of a command with several secrets one is found at a time.
_LOOKS = 4
_END_OF_KEY = r"-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----"
# Also one whose beginning was cut off, and one of PuTTY.
_PRIVATE_KEY = re.compile(
    rf"(?:-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\A\s*(?:[A-Za-z0-9+/=]+\s+)+(?={_END_OF_KEY}))"
    rf".*?(?:{_END_OF_KEY}|\Z)|(?<=Private-Lines: )\d+(?:\r?\n[\w+/=]+(?=\r?\n|\Z))+",
    re.DOTALL,
)
_KUBERNETES_SECRET = re.compile(r"""\bkind["']?:\s*["']?Secret\b""")
_DATA_OF_SECRET = re.compile(
    r"""(?P<yaml>^([ \t]*)(?:stringData|data):)(?:[ \t]*\r?\n\2[ \t]+[^\r\n]*)+"""
    r"""|(?P<json>"(?:stringData|data)":)\s*\{[^{}]*\}""",
    re.MULTILINE,
)


def without_named(text: str) -> str:
    """Return a text with what the rules know of as secret hidden."""
    text = _PRIVATE_KEY.sub(HIDDEN, text)
    if _KUBERNETES_SECRET.search(text):
        text = _DATA_OF_SECRET.sub(lambda found: f"{found['yaml'] or found['json']} {HIDDEN}", text)
    for _ in range(_LOOKS):
        looked = _IN_TEXT.sub(_hidden, text)
        if looked == text:
            break
        text = looked
    return text


def _hidden(found: re.Match[str]) -> str:
    return found["open"] or f"{found[found.lastgroup or 0]}{HIDDEN}"
