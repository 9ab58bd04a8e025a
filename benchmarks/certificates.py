"""Make a server's certificate, key and authority, for servers that make none themselves."""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID


def certificates(place: Path) -> dict[str, str]:
    """Make the files in ``place``, readable by all.

    Return their paths and that of the ``authority``."""
    files = {name: place / f"{name}.pem" for name in ("authority", "certificate", "key")}
    authority_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    issuer = _name("authority of a benchmark")
    authority = _builder(issuer, issuer, authority_key, is_authority=True)
    certificate = _builder(_name("127.0.0.1"), issuer, key, is_authority=False)
    for name, builder in (("authority", authority), ("certificate", certificate)):
        signed = builder.sign(authority_key, hashes.SHA256())
        files[name].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    files["key"].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    for file in files.values():
        file.chmod(0o644)
    return {name: str(file) for name, file in files.items()}


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey, *, is_authority: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
