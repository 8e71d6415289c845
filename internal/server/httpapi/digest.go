package httpapi

import "strings"

const DigestPrefix = "sha256:"

// TrimDigest returns a digest as the store has it: without the prefix sha256:.
func TrimDigest(digest string) string { return strings.TrimPrefix(digest, DigestPrefix) }
