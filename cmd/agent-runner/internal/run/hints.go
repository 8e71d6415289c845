package run

import (
	"fmt"
	"regexp"
)

// hints are the flags of the command that remedy errors whose texts, also shown by servers and
// other hosts, name only the agent file.
var hints = []struct {
	cause *regexp.Regexp
	text  string // a template of [regexp.Regexp.Expand]: $1 is the first group of cause

	// resumed is the text for a resumed run, which has the grants and the store that it began with.
	resumed string
}{
	{
		cause:   regexp.MustCompile(`^(\S+): (?:\S+ failed: )?(?:.* )?(\S+) is not granted to this entry`),
		text:    "To grant it: --grant $1=$2",
		resumed: "The run has the grants that it began with. To grant it: start another run with --grant $1=$2",
	},
	{
		cause:   regexp.MustCompile(`^(\S+): (?:\S+ failed: )?with the grant read:`),
		text:    "To let it read all messages: --grant $1=read:all",
		resumed: "The run has the grants that it began with. To let it read all messages: start another run with --grant $1=read:all",
	},
	{
		cause: regexp.MustCompile(`this host has no store for durable values`),
		text:  "To store the values: --store default",
	},
	{
		cause:   regexp.MustCompile(` the host has a private or reserved address`),
		text:    allowPrivate,
		resumed: allowPrivate,
	},
}

const allowPrivate = "To allow it: --allow-private with its range, such as 127.0.0.0/8"

// withHint adds the flag that remedies err, if one is known. resumed is true for the command "runs
// resume".
func withHint(err error, resumed bool) error {
	if err == nil {
		return nil
	}
	for _, h := range hints {
		text := h.text
		if resumed {
			text = h.resumed
		}
		if at := h.cause.FindStringSubmatchIndex(err.Error()); at != nil && text != "" {
			return fmt.Errorf("%w\n%s", err, h.cause.ExpandString(nil, text, err.Error(), at))
		}
	}
	return err
}
