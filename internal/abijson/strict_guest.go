//go:build wasip1 || guest

package abijson

import (
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// decodeKnown returns false: modules decode the types of package abi by reflection, after a check
// of the text.
func decodeKnown(*jsoncodec.Scanner, any) (known bool, err error) { return false, nil }
