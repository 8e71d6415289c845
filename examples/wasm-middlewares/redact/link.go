package main

// A link is the state of parsing text in Markdown or HTML. It records whether the text so far ends
// within the address of a link or an image, which a client may load without asking.
type link struct {
	In   byte `json:"in,omitempty"`   // one of the values below, or 0 outside of addresses
	Last byte `json:"last,omitempty"` // the last byte of the text
}

// Values of [link.In].
const (
	linkBegins = '(' // the address of a link, or of the definition of a link, follows
	linkGoesOn = '/' // in an address, which ends with white space
	linkTag    = '<' // in a tag of HTML, which ends with > or an empty line
)

func (l *link) pass(text string) {
	for i := range len(text) {
		c := text[i]
		space := c == ' ' || c == '\t' || c == '\n' || c == '\r'
		switch {
		case l.In == linkTag:
			if c == '>' || c == '\n' && l.Last == '\n' {
				l.In = 0
			}
		case l.Last == '<' && (c|0x20 >= 'a' && c|0x20 <= 'z' || c == '/' || c == '!'):
			l.In = linkTag
		case l.Last == ']' && (c == '(' || c == ':'):
			l.In = linkBegins
		case l.Last == '/' && c == '/', l.In == linkBegins && !space:
			l.In = linkGoesOn
		case l.In == linkGoesOn && space:
			l.In = 0
		}
		l.Last = c
	}
}
