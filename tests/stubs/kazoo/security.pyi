class ACL: ...

CREATOR_ALL_ACL: list[ACL]
READ_ACL_UNSAFE: list[ACL]
