package main

import (
	"regexp"
	"strings"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/disguise"
)

// A rule is a pattern for lower-case text from which all characters except a to z were removed.
// Spaces, punctuation and line breaks therefore cannot hide a match.
type rule struct {
	what    string
	pattern *regexp.Regexp
}

const (
	drop     = `(?:ignor(?:e|ing)|disregard|forget|overrid(?:e|ing)|bypass|discard|neglect|skip|donotfollow|dontfollow|stopfollowing|paynoattentionto)`
	former   = `(?:previous|prior|above|earlier|preceding|former|initial|original|existing|foregoing|your|system|safety)`
	rulesOf  = `(?:instruction|rule|prompt|direction|directive|guideline|order|command|restriction|polic(?:y|ies)|constraint|guardrail|programming)`
	secrets  = `(?:systemprompt|systemmessage|hiddenprompt|initialprompt|(?:hidden|initial|original|system|secret|developer)instructions?|yourinstructions|yourprompt)`
	telling  = `(?:reveal|show|print|repeat|output|display|leak|disclose|tellme|giveme|recite|dump|writeout|share)`
	sending  = `(?:send|forward|email|upload|post|exfiltrate|transmit|copy|leak)`
	valuable = `(?:password|passwd|credential|apikey|secretkey|privatekey|accesstoken|sessiontoken|environmentvariable|sshkey)`
	harm     = `(?:bomb|explosive|nervegas|ransomware|malware|keylogger|computervirus|phishing(?:email|page|site)|methamphetamine|bioweapon)`
)

var rules = []rule{
	{"injection", regexp.MustCompile(drop + `[a-z]{0,25}` + former + `[a-z]{0,20}` + rulesOf)},
	{
		"injection",
		regexp.MustCompile(
			drop + `(?:all|any|every|everything|whatever)[a-z]{0,20}(?:before|above|toldyou|weretold|saidearlier|sofar)`,
		),
	},
	{
		"injection",
		regexp.MustCompile(`(?:new|real|actual|updated)(?:system)?(?:instruction|directive)s?(?:foryou|are|follow|is)`),
	},
	{
		"injection",
		regexp.MustCompile(
			`youarenow(?:a|an|in)?(?:dan|free|unrestricted|jailbroken|unfiltered|nolonger|developermode|evil)`,
		),
	},
	{
		"injection",
		regexp.MustCompile(
			`(?:pretend|act|behave|respond)[a-z]{0,20}(?:without|nofurther|haveno|hadno)(?:any)?(?:restriction|rule|limit|filter|guideline|safety)`,
		),
	},
	{
		"injection",
		regexp.MustCompile(`(?:enable|enter|activate|switchto)(?:the)?(?:developer|jailbreak|god|dan|debug)mode`),
	},
	{
		"injection",
		regexp.MustCompile(
			`(?:donot|dont|never|without)(?:tell|inform|mention|notify|telling|informing|mentioning)[a-z]{0,12}(?:theuser|thisto|user)`,
		),
	},
	{"leak", regexp.MustCompile(telling + `[a-z]{0,25}` + secrets)},
	{"exfiltration", regexp.MustCompile(sending + `[a-z]{0,30}` + valuable + `[a-z]{0,30}(?:to|http|at)`)},
	{
		"unsafe",
		regexp.MustCompile(
			`(?:howto|howdoi|howcani|helpme|teachmeto|stepsto|instructions(?:to|for)|recipefor)[a-z]{0,12}(?:make|build|making|building|write|writing|create|creating|synthesi[sz]e|cook|deploy)[a-z]{0,20}` + harm,
		),
	},
}

// image matches Markdown that makes a client fetch an address with data in it.
var image = regexp.MustCompile(`!\[[^\]]*\]\(\s*<?https?://[^)\s]*[?&][^)\s]*=[^)\s]{16,}`)

// markers matches tokens by which models recognize the speaker.
var markers = regexp.MustCompile(`<\|(?:im_start|im_end|system|endoftext|start_header_id)\|?>|\[/?inst\]|<</?sys>>`)

// find returns the kind of attack found in text or in one of its decoded forms, or "" if there is
// none. Text of more than MaxBytes bytes, or with too much encoded text to decode, counts as an
// attack.
func (g *guard) find(text string) string {
	if len(text) > g.MaxBytes {
		return "too long to check"
	}
	forms, complete := disguise.Forms(text)
	for _, form := range forms {
		if what := g.plain(strings.ToLower(form)); what != "" {
			return what
		}
	}
	if !complete {
		return "too much encoded"
	}
	return ""
}

// plain returns the kind of attack found in lower-case text, or "" if there is none.
func (g *guard) plain(text string) string {
	for _, re := range g.own {
		if re.MatchString(text) {
			return "pattern"
		}
	}
	switch {
	case image.MatchString(text):
		return "exfiltration"
	case markers.MatchString(text):
		return "injection"
	}
	seen := map[string]bool{}
	for _, t := range [3]string{text, leet.Replace(text), markup.ReplaceAllString(text, "")} {
		letters := bare(t)
		if seen[letters] {
			continue
		}
		seen[letters] = true
		for _, r := range rules {
			if r.pattern.MatchString(letters) {
				return r.what
			}
		}
	}
	return ""
}

// markup matches text that is not displayed: HTML tags and comments, and the addresses of
// Markdown links.
var markup = regexp.MustCompile(`<!--(?s:.*?)-->|<[^<>]{0,300}>|\]\([^()\s]{0,300}\)`)

// leet replaces digits and signs with the letters they resemble.
var leet = strings.NewReplacer(
	"0",
	"o",
	"1",
	"i",
	"3",
	"e",
	"4",
	"a",
	"5",
	"s",
	"7",
	"t",
	"@",
	"a",
	"$",
	"s",
	"!",
	"i",
	"|",
	"l",
)

// bare returns only the letters a to z of text.
func bare(text string) string {
	return strings.Map(func(c rune) rune {
		if c < 'a' || c > 'z' {
			return -1
		}
		return c
	}, text)
}
