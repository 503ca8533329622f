# Writes a file as slog's server stores it, from slog's description alone, without any code of Gabion.
"""A storage file of slog: each line wraps the password with RSA, and names the hash of the line before.

Needs python3-cryptography; `write` returns False without it.
"""
import base64, datetime, hashlib, json, os, zlib


def write(path, lines, public_key, password=b"my-fancy-password"):
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import padding
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        return False
    key = serialization.load_pem_public_key(open(public_key, "rb").read())
    oaep = padding.OAEP(mgf=padding.MGF1(hashes.SHA512()), algorithm=hashes.SHA512(), label=None)
    aes = AESGCM(hashlib.sha256(password).digest())
    began = datetime.datetime(2021, 1, 15, 20, 22, 7)
    previous = hashlib.sha256(b"").hexdigest()
    with open(path, "wb") as out:
        for n in range(lines):
            at = began + datetime.timedelta(milliseconds=7 * n)
            text = f"session {n * 2654435761 % 2**32:08x} of user{n % 977} closed after {n % 60013} ms"
            stamp = at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}"
            inner = f"{stamp}+01,client-{n % 7},/var/log/auth.log,{hashlib.sha256(text.encode()).hexdigest()},{text}"
            fraction = f"{at.microsecond // 1000:03d}".rstrip("0")
            received = at.strftime("%Y-%m-%dT%H:%M:%S") + ("." + fraction if fraction else "") + "+01:00"
            record = {"wire-data": {"data": inner, "source-ip": f"192.0.2.{n % 250}", "received-at": received, "syslog-data": False, "protocol": "TCP" if n % 2 else "UDP"},
                      "decrypted-data": inner, "suspicious-in": False, "suspicious-re": False, "server-hostname": "slog-server", "previous-hash": previous}
            plain = base64.b64encode(json.dumps(record, separators=(",", ":")).encode() + b"\n")
            nonce = os.urandom(12)
            blob = (nonce + aes.encrypt(nonce, plain, None)).hex()
            wrap = base64.b64encode(key.encrypt(password, oaep)).decode()
            line = f"{stamp}0+01,1,false,{len(blob)},{zlib.crc32(plain)},{wrap},{blob}".encode()
            previous = hashlib.sha256(line).hexdigest()
            out.write(line + b"\n")
    return True
