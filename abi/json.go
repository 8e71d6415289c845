//go:build !wasip1 && !guest

package abi

import "encoding/json"

// JSON is raw JSON text. In a module, JSON is a type of this package instead of json.RawMessage, because importing
// encoding/json makes a module 0.8 MB larger. A module converts a json.RawMessage with abi.JSON(raw).
type JSON = json.RawMessage
