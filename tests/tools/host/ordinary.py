"""Ordinary paragraphs, written by hand: talk about secrets without any, and what only looks like one."""

from __future__ import annotations

ABOUT_SECRETS = """
The password is hashed with argon2id and never logged.
Passwords are stored as bcrypt hashes with a cost of 12.
Password: required, at least 12 characters, one digit and one symbol.
The password is wrong. Please try again.
The password is case-sensitive and expires after 90 days.
The PIN is 4 digits long and is asked for twice.
We decided that the password for the staging database is rotated every 30 days by the platform team.
Set a password with passwd before you log in for the first time.
If the password was leaked, revoke the token and rotate the signing key.
A wrong password is answered after 3 attempts with HTTP 429.
The user types the password as one word; white space at both ends is removed.
Never put a password, a token or an API key into a commit message.
Use --password-stdin instead of --password, because arguments show up in ps.
password = os.environ["DB_PASSWORD"]
password = getpass.getpass("Password: ")
self.password = password or config.get("password")
def login(user: str, password: str, *, token: str | None = None) -> Session:
def connect(host="localhost", user="", password="", port=5432):
password: str = field(repr=False)
"password": {"type": "string", "minLength": 12}
"password": "string"
password: ${DB_PASSWORD}
password: {{ vault_db_password }}
password: !vault |
password: <redacted>
password: ********
PASSWORD=$PASSWORD
DB_PASSWORD=${DB_PASSWORD:?not set}
password: ENC[AES256_GCM,data:f3Jk,iv:9aPq,tag:Zx1,type:str]
secretKeyRef:\n  name: db-credentials\n  key: password
The API token is read from $API_TOKEN and the key from ~/.config/app/key.
api_key = os.environ.get("OPENAI_API_KEY")
api_key=settings.openai_api_key
OPENAI_API_KEY=your-api-key-here
OPENAI_API_KEY=sk-...
GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
token = request.headers.get("Authorization", "").removeprefix("Bearer ")
token = next(tokens)
if token == "NEWLINE" or token.type == tokenize.OP:
The bearer token is checked on every call; a call without one is 401.
Authorization: Bearer <token>
Authorization: Bearer ${TOKEN}
curl -H "Authorization: Bearer $TOKEN" https://api.example.com/v1/items
curl -u "$USER:$PASSWORD" https://example.com/private
Bearer authentication is refused without TLS.
Keys whose names begin with AKIA are access key ids.
A GitHub token begins with ghp_ and has 36 more characters.
Every JWT begins with eyJ, because that is {" in base64.
A private key file starts with "-----BEGIN PRIVATE KEY-----" and must have mode 0600.
The line `-----BEGIN RSA PRIVATE KEY-----` marks an old key format.
The connection string has the form postgres://user:password@host:port/dbname.
postgres://<user>:<password>@<host>/<database>
DATABASE_URL=postgres://${PGUSER}:${PGPASSWORD}@db:5432/app
redis://localhost:6379/0
git+ssh://git@github.com/example/app.git
https://user:***@example.com/path
mongodb://localhost:27017,localhost:27018/app?replicaSet=rs0
Set-Cookie flags: HttpOnly, Secure and SameSite=Lax; the session cookie lives 30 minutes.
Cookie: theme=dark; lang=ko
The session id is regenerated after each login.
The secret is kept in Vault under secret/data/app/db and mounted at /run/secrets/db.
credentials: ~/.aws/credentials
private_key_path: /etc/ssl/private/app.key
key: nightly-build-2026
secret: projects/123/secrets/db-password/versions/4
MAX_TOKENS=4096
TOKEN_LIMIT=8000
PRIMARY_KEY=id
CACHE_KEY_PREFIX=v2:user
SORT_KEYS=true
Token usage: 12,345 prompt, 678 completion, 13,023 in all.
tokens: 4096
pass: 1024\nfail: 3\nskip: 12
PASS tests/test_login.py (12 tests)
pw = plot_width
pwd: prints the working directory
The key to good retrieval is the tokeniser.
idempotency_key: capture-2026-11-29-nightly-build
password_file: /run/secrets/db_password
password_hash_algorithm = "argon2id"
password_min_length: 12
show_password = false
passwordField.placeholder = "Enter your password"
errors.password = "is too short"
The secret to a fast start is not importing what is not needed.
He kept the secret for 20 years.
Our pass rate went from 82% to 97% after the second round.
I can't remember my password, can you send me a reset link?
She changed her password yesterday and wrote it down in her notebook.
My bank sent me a new PIN, it arrived by post on Tuesday.
Boarding passes are checked at gate B12.
Log in as admin and open Settings, then Users.
The account is locked after five failed logins.
Credentials are read from the keyring first, then from the environment.
비밀번호는 8자 이상이어야 하며 숫자와 기호를 포함해야 한다.
비밀번호는 bcrypt로 해시하여 저장한다.
비밀번호는 필수 항목입니다.
비밀번호는 90일마다 바꿔야 한다.
비밀번호는 SHA-256으로 해시하지 않고 argon2id를 쓴다.
비밀번호를 5회 틀리면 계정이 잠긴다.
비밀번호 정책을 2026년 11월에 바꾸었다.
암호는 AES-256-GCM을 쓰고 키는 매번 새로 만든다.
암호화 키는 디스크에 두지 않고 키링에 둔다.
API 키는 환경 변수 OPENAI_API_KEY에서 읽는다.
토큰은 로그에 남기지 않는다. 세션 쿠키도 마찬가지다.
액세스 토큰은 15분, 갱신 토큰은 30일 동안 유효하다.
비밀번호를 잊어버려서 초기화 메일을 다시 받았다.
로그인은 admin 계정으로 하고, 설정 메뉴를 연다.
현관 비밀번호는 4자리이고 매달 바뀐다.
パスワードは12文字以上にしてください。
密码必须至少包含12个字符。
Das Passwort wird nie gespeichert.
""".strip().split("\n")

LOOKALIKES = """
Fixed in commit 3f2a9c1d8e7b6a5f4c3d2e1f0a9b8c7d6e5f4a3b.
git cherry-pick 9fceb02 && git push origin main
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  README.md
d41d8cd98f00b204e9800998ecf8427e *empty.bin
request 6f1c2d3e-4b5a-4987-8f6e-5d4c3b2a1908 took 12 ms
record mem_y5lyhrr2w42rak7rz6h3gypy53rhohj2zszdhj7gpqzvjnijiqkq was accepted
candidate_0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0
image: registry.example.com/team/app:1.4.2@sha256:9b2c1f0e8d7c6b5a493827160f5e4d3c2b1a09f8e7d6c5b4a3928170f6e5d4c3
integrity="sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC"
background: url(data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDw)
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ3bQm4n1rj7o0u5yq9m5x1c2v3b4n5m6q7w8e9r0tY me@laptop
-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ2xvdWQgQ2VydGlmaWNhdGUgMAoGCCqGSM49BAMCMC8x
_ZN4core3fmt9Formatter12pad_integral17h8c1e6d2b9f0a3e57E
getHTTPResponseCode2ValueForUserAccountSettingsPage
src/components/UserProfile/__tests__/UserProfile.integration.test.tsx
/srv/projects/engram/journal/store/lmdb/environment.py:214
https://www.youtube.com/watch?v=dQw4w9WgXcQ&t=42s
https://docs.google.com/document/d/1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms/edit
https://example.com/api/v1/items?page_token=CAUQAA&page_size=50
2026-11-29T12:34:56.789Z INFO auth: token refreshed for user 42 in 12ms
2026-11-29T12:34:57.001Z WARN login failed for user admin from 203.0.113.5 (3 of 5)
[ 1234.567890] usb 1-1: new high-speed USB device number 4 using xhci_hcd
session_id=6f1c2d3e-4b5a-4987-8f6e-5d4c3b2a1908 user=42 path=/items
trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7
etag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
x-request-id: 8f14e45fceea167a5a36dedd4bea2543
key_id: 0f1e2d3c4b5a69788796a5b4c3d2e1f0
checksum = 0x1f2e3d4c5b6a7988
#define VERSION "1.4.2-rc1+build.20261129"
pip install engram-journal==0.1.0 --require-hashes
npm WARN deprecated uuid@3.4.0: please upgrade to version 7 or higher
kubectl get pods -n kube-system -l k8s-app=kube-dns -o wide
docker run --rm -p 8080:80 -v "$PWD:/srv:ro" nginx:1.27-alpine
ffmpeg -i input.mp4 -c:v libx264 -crf 23 -pass 1 -f null /dev/null
SELECT id, email FROM users WHERE created_at > '2026-11-01' ORDER BY id LIMIT 50;
for (const [key, value] of Object.entries(headers)) req.setHeader(key, value);
AES-256-GCM, Ed25519, X25519, HKDF-SHA256, BLAKE3, argon2id
ISO 8601, RFC 3339, RFC 8785, RFC 6962 and C2SP tlog-checkpoint
Room B1204, building 7, from 09:30 to 11:00, call +82 2 1234 5678.
Order 4797 shipped on 2026-11-29, tracking number 1Z999AA10123456784.
IBAN DE89 3704 0044 0532 0130 00 is the example of the standard.
ISBN 978-3-16-148410-0, DOI 10.1000/xyz123
주문번호 20261129-004797, 송장번호 612345678901
회의는 B1204호에서 09:30에 시작하고 회의록은 docs/2026-11-29-회의록.md에 있다.
커밋 3f2a9c1d8e7b6a5f4c3d2e1f0a9b8c7d6e5f4a3b에서 고쳤다.
색인 재구축은 1,234,567건에 42.7초가 걸렸다(v1.4.2, Python 3.11).
""".strip().split("\n")


def by_hand() -> list[str]:
    """Return the paragraphs; a written backslash and n is a line end."""
    return [line.replace("\\n", "\n") for line in ABOUT_SECRETS + LOOKALIKES]
