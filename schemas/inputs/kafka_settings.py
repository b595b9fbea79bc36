"""Settings of a Kafka client as commands take them; the client itself is not made here.

There are two clients: librdkafka in this process, and the Java one in Spark. They name some settings differently, above
all those of SASL and TLS. One properties file, with the names of either or of both, serves both: what only the other's
names tell is translated (librdkafka's CONFIGURATION.md; Apache Kafka's documentation, Producer, Consumer and Security).
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ticdc_bridge.schemas.model.credentials import mask_credentials
from ticdc_bridge.schemas.model.errors import SetupError

TOPIC: Final = "kafka:"
"""How a location begins that is a topic: `kafka:TOPIC`."""
_FILE_OPTION = "--kafka-config"


def client_settings(servers: str | None, config_file: Path | None, what: str = "Kafka") -> dict[str, str]:
    """librdkafka's settings from --bootstrap-servers (or BRIDGE_BOOTSTRAP_SERVERS) and a properties file.

    SetupError USAGE when there are no servers (`what` needs them), the file can't be read, or it has what librdkafka
    can't do.
    """
    return settings_for_librdkafka(_read_settings(servers, config_file, what))


def java_settings(servers: str | None, config_file: Path | None) -> dict[str, str]:
    """The same for the Java client. SetupError USAGE as there."""
    return settings_for_java(_read_settings(servers, config_file, "Kafka"))


def _read_settings(servers: str | None, config_file: Path | None, what: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    if config_file is not None:
        try:
            lines = config_file.read_text(encoding="utf-8-sig").splitlines()
        except OSError as error:
            raise SetupError("USAGE", details=f"{_FILE_OPTION} {config_file}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise SetupError("USAGE", details=f"{_FILE_OPTION} {config_file}: not UTF-8 text") from error
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.lstrip().startswith("#"):
                name, equals, value = line.partition("=")
                if not equals:
                    raise SetupError("USAGE", details=f"{_FILE_OPTION} {config_file}:{number}: name=value is needed")
                settings[name.strip()] = value.strip()
    servers = servers or settings.get("bootstrap.servers") or os.environ.get("BRIDGE_BOOTSTRAP_SERVERS")
    if not servers:
        raise SetupError("USAGE", details=f"{what} needs --bootstrap-servers HOST:PORT (or BRIDGE_BOOTSTRAP_SERVERS)")
    for server in servers.split(","):
        if not _SERVER.fullmatch(server.strip()):
            details = (
                f"--bootstrap-servers {mask_credentials(server.strip())}: HOST:PORT is needed, without a scheme such as"
                " http:// and without a path (several with commas between)"
            )
            raise SetupError("USAGE", details=details)
    return {**settings, "bootstrap.servers": servers}


_SERVER = re.compile(
    r"(?:(?:plaintext|ssl|sasl_plaintext|sasl_ssl)://)?(?:\[[0-9a-f:.%\w]+\]|[^\s/:,]+)(?::\d{1,5})?", re.IGNORECASE
)


_RENAMED: Mapping[str, str] = {
    "sasl.mechanisms": "sasl.mechanism",
    "metadata.broker.list": "bootstrap.servers",
    "compression.codec": "compression.type",
    "request.required.acks": "acks",
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
}
"""librdkafka's name → the Java client's. Names that are the same in both are not here."""
_UNKNOWN_TO_RD = {_RENAMED[rd_name]: rd_name for rd_name in ("message.max.bytes", "fetch.wait.max.ms")}
"""The Java client's name → librdkafka's, where librdkafka does not know the former too."""
_JAVA_ONLY = re.compile(
    r"sasl\.jaas\.config|sasl\.(?:client|login)\..*|ssl\.truststore\..*|ssl\.keystore\.(?:type|key|certificate\.chain)"
    r"|ssl\.(?:protocol|provider|enabled\.protocols|(?:key|trust)manager\.algorithm|engine\.factory\.class)"
    r"|ssl\.secure\.random\.implementation|security\.providers|(?:key|value)\.(?:de)?serializer|partitioner\..+"
    r"|buffer\.memory|max\.block\.ms|default\.api\.timeout\.ms|(?:send|receive)\.buffer\.bytes|interceptor\.classes"
    r"|metrics?\..*|exclude\.internal\.topics|socket\.connection\.setup\.timeout\.max\.ms"
    r"|compression\.(?:gzip|lz4|zstd)\.level"
)
"""Settings that librdkafka does not know (or, as sasl.jaas.config, has by other names)."""
_RD_ONLY = re.compile(
    r"sasl\.(?:username|password|mechanisms)|sasl\.oauthbearer\.(?:method|client\.id|client\.secret|scope|extensions)"
    r"|sasl\.kerberos\.(?:keytab|principal)|ssl\.(?:ca|certificate|key)\.(?:location|pem)|enable\.ssl\..*|ssl\.ca\..*"
)
_SECURITY = "org.apache.kafka.common.security"
_USER = {"username": "sasl.username", "password": "sasl.password"}
_OIDC = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_KERBEROS = {"keyTab": "sasl.kerberos.keytab", "principal": "sasl.kerberos.principal"}
_LOGINS: Mapping[str, tuple[str, Mapping[str, str], str]] = {
    "PLAIN": (f"{_SECURITY}.plain.PlainLoginModule", _USER, ""),
    "SCRAM-SHA-256": (f"{_SECURITY}.scram.ScramLoginModule", _USER, ""),
    "SCRAM-SHA-512": (f"{_SECURITY}.scram.ScramLoginModule", _USER, ""),
    "OAUTHBEARER": (f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule", _OIDC, ""),
    "GSSAPI": ("com.sun.security.auth.module.Krb5LoginModule", _KERBEROS, " useKeyTab=true storeKey=true"),
}
"""SASL mechanism → JAAS login module, its options by librdkafka's settings, and options that it has besides."""
_HANDLER = f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))')


# ---------------------------------------------------------------------------------------------- to the Java client
def settings_for_java(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings by either client's names → those of the Java one. Files of PEM are given by their text: executors on
    other machines have none. SetupError USAGE for what it can't do."""
    result = {name: value for name, value in settings.items() if not _RD_ONLY.fullmatch(name) and name not in _RENAMED}
    for rd_name, java_name in _RENAMED.items():
        if rd_name in settings:
            result.setdefault(java_name, settings[rd_name])
    for name in result.keys() & _INLINE_PEM:
        result[name] = _lines(result[name])
    if "security.protocol" in result:
        result["security.protocol"] = result["security.protocol"].upper()
    if result.get("ssl.endpoint.identification.algorithm") == "none":
        result["ssl.endpoint.identification.algorithm"] = ""
    if settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        why = "Spark's client always verifies: give the CA's PEM"
        raise _settings_error("enable.ssl.certificate.verification=false", why)
    if "sasl.jaas.config" not in settings and result.get("security.protocol", "").startswith("SASL"):
        result |= _login(settings, result.get("sasl.mechanism", "GSSAPI").upper())
    return result | _stores(settings)


def _login(settings: Mapping[str, str], mechanism: str) -> dict[str, str]:
    module, options, more = _LOGINS.get(mechanism, ("", {}, ""))
    jaas_options = {name: settings[setting] for name, setting in options.items() if setting in settings}
    if not jaas_options:
        return {}
    quoted = "".join(f' {name}="{_ESCAPED.sub(_BACKSLASHED, value)}"' for name, value in jaas_options.items())
    result = {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{module} required{more}{quoted};"}
    if mechanism == "OAUTHBEARER":
        result["sasl.login.callback.handler.class"] = settings.get("sasl.login.callback.handler.class", _HANDLER)
    return result


_ESCAPED, _BACKSLASHED = re.compile(r'(["\\])'), r"\\\1"


def _stores(settings: Mapping[str, str]) -> dict[str, str]:
    """Certificates and key, unless the Java client's own names tell them."""
    stores: dict[str, str] = {}
    if not any(name.startswith("ssl.truststore.") for name in settings) and (ca := _pem(settings, "ca")):
        stores |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca}
    if any(name.startswith("ssl.keystore.") for name in settings):
        return stores
    chain, key = _pem(settings, "certificate"), _pem(settings, "key")
    if chain and key:
        if "-----BEGIN PRIVATE KEY" not in key and "-----BEGIN ENCRYPTED PRIVATE KEY" not in key:
            why = "Spark's client reads PKCS#8 keys only: openssl pkcs8 -topk8 -in KEY -out NEW"
            raise _settings_error("ssl.key", why)
        stores |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
    return stores


def _pem(settings: Mapping[str, str], what: str) -> str | None:
    """The text of ssl.WHAT.pem, or of the file ssl.WHAT.location."""
    if (text := settings.get(f"ssl.{what}.pem")) is not None:
        return _lines(text)
    path = settings.get(f"ssl.{what}.location")
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "not PEM"
        raise _settings_error(f"ssl.{what}.location={path}", why) from error


# ---------------------------------------------------------------------------------------------- to librdkafka
def settings_for_librdkafka(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings by either client's names → those of librdkafka. SetupError USAGE for what it can't do."""
    result = {_UNKNOWN_TO_RD.get(name, name): v for name, v in settings.items() if not _JAVA_ONLY.fullmatch(name)}
    if result.get("ssl.endpoint.identification.algorithm") == "":
        result["ssl.endpoint.identification.algorithm"] = "none"
    for name, value in _read_jaas(settings).items():
        result.setdefault(name, value)
    if (token := "sasl.oauthbearer.token.endpoint.url") in settings:
        result.setdefault("sasl.oauthbearer.method", "oidc")
        result[token] = settings[token]
    for store, names in _STORES.items():
        if not any(name in settings for name in names):
            result |= _from_store(settings, store)
    if settings.get("ssl.keystore.type", "PKCS12").upper() != "PKCS12":
        result = {name: value for name, value in result.items() if not name.startswith("ssl.keystore.")}
    return result


_STORES: Mapping[str, tuple[str, ...]] = {
    "truststore": ("ssl.ca.location", "ssl.ca.pem", "ssl.ca.certificate.stores"),
    "keystore": ("ssl.certificate.location", "ssl.certificate.pem"),
}
"""The Java client's store → librdkafka's names for the same."""
_OF_PEM = {"truststore": ("ssl.ca.location",), "keystore": ("ssl.certificate.location", "ssl.key.location")}
_INLINE = {
    "truststore": {"certificates": "ssl.ca.pem"},
    "keystore": {"certificate.chain": "ssl.certificate.pem", "key": "ssl.key.pem"},
}


_INLINE_PEM = {f"ssl.{store}.{name}" for store, names in _INLINE.items() for name in names}


def _lines(pem: str) -> str:
    """A PEM that is one line of a properties file, as the lines that it stands for."""
    return pem.replace("\\n", "\n")


def _from_store(settings: Mapping[str, str], store: str) -> dict[str, str]:
    pem_texts = {rd_name: settings.get(f"ssl.{store}.{java_name}") for java_name, rd_name in _INLINE[store].items()}
    result = {name: _lines(value) for name, value in pem_texts.items() if value is not None}
    path, kind = settings.get(f"ssl.{store}.location"), settings.get(f"ssl.{store}.type", "").upper()
    if result or path is None:
        return result
    if kind == "PEM":
        return dict.fromkeys(_OF_PEM[store], path)
    if store == "keystore" and kind != "JKS":
        return {}  # PKCS#12: librdkafka has the same names for it
    details = f"librdkafka can't read Java's keystores: give {_OF_PEM[store][0]}=FILE.pem beside it"
    raise _settings_error(f"ssl.{store}.location={path}", details)


def _read_jaas(settings: Mapping[str, str]) -> dict[str, str]:
    config = settings.get("sasl.jaas.config")
    if config is None:
        return {}
    module = config.split(maxsplit=1)[0] if config.split() else ""
    jaas_options = {name: re.sub(r"\\(.)", r"\1", quoted) or bare for name, quoted, bare in _OPTION.findall(config)}
    for login_module, options, _ in _LOGINS.values():
        if module == login_module:
            return {setting: jaas_options[name] for name, setting in options.items() if name in jaas_options}
    why = f"the login module {mask_credentials(module)} has no equal in librdkafka: add its settings beside"
    raise _settings_error("sasl.jaas.config", why)


def _settings_error(what: str, why: str) -> SetupError:
    return SetupError("USAGE", details=f"{_FILE_OPTION}: {what}: {why}")
