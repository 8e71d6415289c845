package httpapi

import "strings"

// DigestPrefix is the prefix of digests in the API.
const DigestPrefix = "sha256:"

// TrimDigest returns a digest in the store's form, without the prefix "sha256:".
func TrimDigest(digest string) string { return strings.TrimPrefix(digest, DigestPrefix) }
