"""Makes tokens with PyJWT, and some by hand that PyJWT refuses to make.

    tokens.py FOLDER

The folder has secret, rsa.pem, ec.pem and ed.pem (private keys), their public keys as *.pub.pem, and stranger.pem, a key
that the gateway does not have. Writes jwks.json with the public key of jwk.pem, and prints an object of tokens by name.
"""

import base64
import hashlib
import hmac
import json
import sys
import time
from pathlib import Path

import jwt

folder = Path(sys.argv[1])
secret = (folder / "secret").read_text()
pem = {name: (folder / f"{name}.pem").read_text() for name in ["rsa", "ec", "jwk", "stranger"]}
now = int(time.time())
good = {"sub": "ann", "exp": now + 600, "subscribe": ["news.*"], "publish": ["news.de"]}


def encode(part):
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def by_hand(header, claims, key):
    text = f"{encode(header)}.{encode(claims)}"
    return f"{text}.{encode(hmac.new(key, text.encode(), hashlib.sha256).digest())}"


def changed(**claims):
    return jwt.encode({**good, **claims}, secret, "HS256")


public = jwt.get_algorithm_by_name("ES256").prepare_key(pem["jwk"]).public_key()
key = json.loads(jwt.get_algorithm_by_name("ES256").to_jwk(public))
(folder / "jwks.json").write_text(json.dumps({"keys": [{**key, "kid": "first", "alg": "ES256", "use": "sig"}]}))

valid = jwt.encode(good, secret, "HS256")
head, claims, signature = valid.split(".")
more = encode({**good, "publish": [">"]})
tokens = {
    "valid HS256": valid,
    "valid RS256": jwt.encode(good, pem["rsa"], "RS256"),
    "valid ES256": jwt.encode(good, pem["ec"], "ES256"),
    "valid ES256 of the JWKS": jwt.encode(good, pem["jwk"], "ES256", headers={"kid": "first"}),
    "expired": changed(exp=now - 3600),
    "not yet valid": changed(nbf=now + 3600),
    "without an end": jwt.encode({name: good[name] for name in good if name != "exp"}, secret, "HS256"),
    "for another audience": changed(aud="somebody else"),
    "the wrong secret": jwt.encode(good, "the secret of somebody else, long enough", "HS256"),
    "the wrong key": jwt.encode(good, pem["stranger"], "ES256"),
    "an unknown kid": jwt.encode(good, pem["stranger"], "ES256", headers={"kid": "second"}),
    "alg none": jwt.encode(good, None, "none"),
    "alg none with a signature": f"{encode({'alg': 'none', 'typ': 'JWT'})}.{claims}.{signature}",
    "alg None": f"{encode({'alg': 'None'})}.{claims}.",
    "signed with the public key": by_hand(
        {"alg": "HS256", "typ": "JWT"}, good, (folder / "rsa.pub.pem").read_bytes()
    ),
    "a key of its own": jwt.encode(good, pem["stranger"], "ES256", headers={"jwk": key}),
    "other claims": f"{head}.{more}.{signature}",
    "no signature": f"{head}.{claims}.",
    "two parts": f"{head}.{claims}",
    "no token": "not-a-token",
    "admin as a text": changed(admin="true"),
    "admin": changed(admin=True),
}
json.dump(tokens, sys.stdout)
