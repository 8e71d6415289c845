//go:build !wasip1

// Package callbudget tests the script beside it.
package callbudget

import (
	"testing"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/conversation"
)

func TestConversations(t *testing.T) { conversation.Test(t) }
