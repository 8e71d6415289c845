package main

import "strings"

// An effect is a bit set of kinds of actions: those of a tool, or those that a request asks for.
type effect uint16

const (
	reads effect = 1 << iota
	sends
	pays
	deletes
	creates
	changes
	shares
	publishes
	manages // changes an account: passwords, profiles, permissions
	runs
)

const effectNames = "read, send, pay, delete, create, change, share, publish, account, run"

// effectNamed returns the effect with a name of the configuration, or 0.
func effectNamed(name string) effect {
	for i, n := range strings.Split(effectNames, ", ") {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

// String returns the names of the effects.
func (e effect) String() string {
	var out []string
	for i, n := range strings.Split(effectNames, ", ") {
		if e&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return strings.Join(out, ", ")
}

// A verb is the meaning of a word that is a verb in a tool's name or in a request. A word that can also
// be a noun is a verb only at the beginning of a clause.
type verb struct {
	effect effect
	noun   bool
}

// verbs maps the base forms of verbs, which requests and tool names use, to their meanings.
var verbs = map[string]verb{}

func init() {
	for _, v := range []struct {
		effect effect
		noun   bool
		words  string
	}{
		{reads, false, "get list search find read fetch show see query count describe retrieve browse visit " +
			"calculate compute evaluate convert parse summarize summarise translate validate verify compare " +
			"recommend rank filter is has lookup inspect analyze analyse extract explain detect predict scan"},
		{reads, true, "view look check download watch estimate preview status help tell"},
		{sends, false, "send reply respond forward notify inform remind write submit dispatch ping"},
		{sends, true, "email mail message text dm contact alert tell answer"},
		{pays, false, "pay buy purchase donate withdraw reimburse repay spend"},
		{pays, true, "transfer wire refund order checkout deposit tip charge"},
		{deletes, false, "delete remove erase clear purge cancel unsubscribe revoke kick ban uninstall " +
			"wipe destroy discard"},
		{deletes, true, "drop trash archive"},
		{creates, false, "create add reserve insert append save upload generate register make write compose"},
		{creates, true, "schedule book plan new record draft put store set note"},
		{changes, false, "add modify edit adjust rename reschedule replace fix correct postpone append insert extend " +
			"assign complete mark write save confirm decline accept"},
		{changes, true, "update change move set patch reset put label close"},
		{shares, false, "grant invite allow add authorize give"},
		{shares, true, "share permit"},
		{publishes, false, "publish tweet announce submit upload broadcast"},
		{publishes, true, "post comment release"},
		{runs, false, "execute exec run install deploy restart start stop trigger launch invoke kill"},
		{runs, true, "bash shell command python call"},
	} {
		for w := range strings.FieldsSeq(v.words) {
			known, ok := verbs[w]
			verbs[w] = verb{known.effect | v.effect, v.noun || ok && known.noun}
		}
	}
}

// A topic is a bit set of kinds of objects that a tool works with, or that a request is about.
type topic uint16

const (
	messages topic = 1 << iota
	events
	money
	files
	accounts
	people
	bookings
	pages
	tasks
)

var topics = map[string]topic{}

func init() {
	for _, o := range []struct {
		topic topic
		words string
	}{
		{messages, "email emails mail mails message messages inbox letter sms reply dm channel channels chat thread"},
		{events, "event events meeting meetings appointment appointments calendar participant participants attendee " +
			"attendees invitation invitations"},
		{money, "money transaction transactions payment payments bill bills rent invoice invoices refund fee fees " +
			"subscription order orders bank iban transfer price prices cost costs purchase difference debt"},
		{files, "file files document documents folder drive spreadsheet directory attachment doc docx " +
			"xlsx pdf txt csv list"},
		{accounts, "password account profile info information settings credentials user permission " +
			"permissions role token key"},
		{people, "user users member members contact contacts team customer customers"},
		{bookings, "hotel restaurant flight car cab taxi room table ticket tickets reservation " +
			"reservations booking trip rental"},
		{pages, "webpage page website site web url link article blog post"},
		{tasks, "task tasks todo issue issues reminder reminders card"},
	} {
		for w := range strings.FieldsSeq(o.words) {
			topics[w] |= o.topic
		}
	}
}

// implied returns the topics that a verb implies, as "reply" implies messages.
func implied(e effect) topic {
	var o topic
	if e&sends != 0 {
		o |= messages
	}
	if e&pays != 0 {
		o |= money
	}
	if e&publishes != 0 {
		o |= pages | messages
	}
	return o
}

// byObject returns e with the effects that follow from the topics o. Sending or creating money is
// paying, and changing, deleting or creating an account is managing it.
func byObject(e effect, o topic) effect {
	if e&(sends|creates) != 0 && o&money != 0 {
		e |= pays
	}
	if e&(changes|deletes|creates) != 0 && o&accounts != 0 {
		e |= manages
	}
	return e
}
