//go:build !wasip1

// Package callbudget tests the script in this folder.
package callbudget

import (
	"testing"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/conversation"
)

func TestConversations(t *testing.T) { conversation.Test(t) }
