//go:build wasip1 || guest

package abijson

import (
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// decodeKnown returns false. Modules check the text, and then decode the types of package abi by
// reflection.
func decodeKnown(*jsoncodec.Scanner, any) (known bool, err error) { return false, nil }
