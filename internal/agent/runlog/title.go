package runlog

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// maxTitle is the maximum length of a run's title, in characters.
const maxTitle = 120

// Title returns the last user message in one line, shortened to maxTitle characters, or "" if there
// is no such message.
func Title(l *message.List) string {
	for i := l.Len() - 1; i >= 0; i-- {
		if m := l.At(i); m.Role == abi.RoleUser {
			return titleOf(&m)
		}
	}
	return ""
}

// ThreadTitle returns the first user message of a thread in one line, without control characters
// and shortened to maxTitle characters. It returns "" if there is no such message.
func ThreadTitle(l *message.List) string {
	for i := range l.Len() {
		if m := l.At(i); m.Role == abi.RoleUser {
			return strings.Map(func(r rune) rune {
				if unicode.IsControl(r) {
					return -1
				}
				return r
			}, titleOf(&m))
		}
	}
	return ""
}

// titleOf returns the text of a message in one line, shortened to maxTitle characters.
func titleOf(m *abi.Message) string {
	const enough = (maxTitle + 1) * utf8.UTFMax // bytes
	var begins strings.Builder                  // avoids copying a message of megabytes
	for word := range strings.FieldsSeq(m.Content.String()) {
		if begins.Len() > 0 {
			begins.WriteByte(' ')
		}
		begins.WriteString(word[:min(len(word), enough)])
		if begins.Len() >= enough {
			break
		}
	}
	text := []rune(begins.String())
	if len(text) > maxTitle {
		text = append(text[:maxTitle-1], '…')
	}
	return string(text)
}
