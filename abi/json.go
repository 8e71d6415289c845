//go:build !wasip1 && !guest

package abi

import "encoding/json"

// JSON is raw JSON text. In a module it is a type of this package instead, because
// importing encoding/json makes a module 0.8 MB larger; convert a json.RawMessage there
// with abi.JSON(raw).
type JSON = json.RawMessage
