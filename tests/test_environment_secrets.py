from __future__ import annotations

import re

import pytest

from davincirun.environment_secrets import is_secret

SECRETS = re.findall(
    r"\S+",
    """
    KEY API_KEY APIKEY OPENAI_APIKEY AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY S3_SECRET_KEY SSH_PRIVATE_KEY WANDB_API_KEY
    apiKey accessKey ENCRYPTION_KEYS KEY_1
    TOKEN HF_TOKEN AWS_SESSION_TOKEN HFTOKEN accessToken GITHUB_TOKEN_2 AUTH_TOKENS X-Auth-Token
    SECRET CLIENTSECRET SECRETS_FILE SCC_SECRET PASSWORD PGPASSWORD DB_PASSWD MYSQL_PWD ssh_passphrase DB_PASS
    CRED CREDS CRED_FILE GOOGLE_APPLICATION_CREDENTIALS MA_CREDENTIAL
    AK SK OBS_AK OBS_SK HUAWEICLOUD_SDK_AK AKSK AK2 REDIS_AUTH AUTHORIZATION
    """,
)

FRIENDS = re.findall(
    r"\S+",
    """
    PATH HOME PWD OLDPWD KEYBOARD XKEYBOARD_LAYOUT MASTER_PORT MASTER_ADDR MONKEY TURKEY_REGION SSH_AUTH_SOCK
    TOKENIZERS_PARALLELISM TOKENIZER_PATH CREDIT_LIMIT TASK_ID VC_TASK_INDEX MASK DISK RISK AKSHARE PASSES BYPASS
    SSH_AGENT_PID COMPASS RANK_ID JOB_ID MA_INPUTS KEEPALIVE AUTHOR GIT_AUTHOR_NAME PYTHONHASHSEED XDG_SESSION_ID _
    """,
)


@pytest.mark.parametrize("name", SECRETS)
def test_a_credential_is_known_by_its_name(name) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", [*FRIENDS, ""])
def test_a_false_friend_is_no_credential(name) -> None:
    assert not is_secret(name)
