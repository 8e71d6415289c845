package httpapi

import "strings"

const DigestPrefix = "sha256:"

// bare is a digest as the store has it.
func TrimDigest(digest string) string { return strings.TrimPrefix(digest, DigestPrefix) }
