"""Certificates for tests, made when needed: valid ones, and one of each kind that must not be accepted."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Certificates"]

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class _Authority:
    name: x509.Name
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


class Certificates:
    """PEM files in one directory. A key store contains the certificate and its key, as Kafka and pyklient
    expect."""

    authority: Path
    """The authority that has signed all certificates except those of ``stranger``."""
    stranger: Path
    """An authority that has signed none of the other certificates."""
    server: Path
    """The key store for ``localhost``, ``127.0.0.1`` and ``::1``."""
    expired: Path
    """The same key store with a certificate that expired yesterday."""
    elsewhere: Path
    """The key store for ``kafka.example.org`` only."""
    client: Path
    """The key store of a client, signed by ``authority``."""
    uninvited: Path
    """The key store of a client, signed by ``stranger``."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        now = datetime.datetime.now(datetime.UTC)
        trusted, other = _new_authority("Test Authority", now), _new_authority("Somebody Else", now)
        here, there = ("localhost", "127.0.0.1", "::1"), ("kafka.example.org",)
        valid, over = (now - _DAY, now + 30 * _DAY), (now - 30 * _DAY, now - _DAY)
        self.authority = _write(directory / "authority.pem", _certificate_pem(trusted.certificate))
        self.stranger = _write(directory / "stranger.pem", _certificate_pem(other.certificate))
        self.server = _write(directory / "server.pem", _signed(trusted, here, valid))
        self.expired = _write(directory / "expired.pem", _signed(trusted, here, over))
        self.elsewhere = _write(directory / "elsewhere.pem", _signed(trusted, there, valid))
        self.client = _write(directory / "client.pem", _signed(trusted, ("client",), valid))
        self.uninvited = _write(directory / "uninvited.pem", _signed(other, ("client",), valid))


def _write(path: Path, pem: bytes) -> Path:
    path.write_bytes(pem)
    path.chmod(0o600)
    return path


def _new_authority(common_name: str, now: datetime.datetime) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    signing = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(name, name, key.public_key(), (now - 60 * _DAY, now + 60 * _DAY))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(signing, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _Authority(name, key, certificate)


def _signed(
    authority: _Authority, names: tuple[str, ...], validity: tuple[datetime.datetime, datetime.datetime]
) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    issuer_key = authority.key.public_key()
    certificate = (
        _builder(subject, authority.name, key.public_key(), validity)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return key_pem + _certificate_pem(certificate) + _certificate_pem(authority.certificate)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    validity: tuple[datetime.datetime, datetime.datetime],
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity[0])
        .not_valid_after(validity[1])
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
