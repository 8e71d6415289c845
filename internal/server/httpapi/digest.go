package httpapi

import "strings"

const DigestPrefix = "sha256:"

// TrimDigest returns a digest in the store's form, which is without the prefix sha256:.
func TrimDigest(digest string) string { return strings.TrimPrefix(digest, DigestPrefix) }
