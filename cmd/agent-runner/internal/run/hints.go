package run

import (
	"fmt"
	"regexp"
)

// hints are the flags of the command that remedy errors whose texts, also shown by servers and
// other hosts, name only the agent file.
var hints = []struct {
	cause *regexp.Regexp
	text  string // with the groups of cause
}{
	{regexp.MustCompile(`^(\S+): \S+ failed: (?:.* )?(\S+) is not granted to this entry`), "To grant it: --grant $1=$2"},
	{regexp.MustCompile(`^(\S+): \S+ failed: with the grant read:`), "To let it read all messages: --grant $1=read:all"},
	{regexp.MustCompile(`this host has no store for durable values`), "To store the values: --store default"},
	{
		regexp.MustCompile(` the host has a private or reserved address`),
		"To allow it: --allow-private with its range, such as 127.0.0.0/8",
	},
}

// withHint adds the flag that remedies err, if one is known.
func withHint(err error) error {
	if err == nil {
		return nil
	}
	for _, h := range hints {
		if at := h.cause.FindStringSubmatchIndex(err.Error()); at != nil {
			return fmt.Errorf("%w\n%s", err, h.cause.ExpandString(nil, h.text, err.Error(), at))
		}
	}
	return err
}
