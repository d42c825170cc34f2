package rpc

// MethodContacts asks the leader which workers it hears of: Empty, ContactsReply.
const MethodContacts = "server.contacts"

// ContactsReply tells of the workers that the leader knows something of.
type ContactsReply struct {
	Workers []Contact `msgpack:"w"`
}

// Contact is what the leader knows of one.
type Contact struct {
	Name     string `msgpack:"n"`
	SilentMS int64  `msgpack:"s"`           // since it was heard of last
	Suspect  bool   `msgpack:"u,omitempty"` // its session ended, or it has been silent for too long
}
