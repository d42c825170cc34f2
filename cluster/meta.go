package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/vmihailenco/msgpack/v5"
)

// meta is what a member says of itself, as memberlist carries it: at most 512
// bytes, so labels are cut to fit.
type meta struct {
	Role      string            `msgpack:"r"`
	Name      string            `msgpack:"n"`
	Boot      string            `msgpack:"b"`
	ClusterID string            `msgpack:"c,omitempty"`
	RPC       string            `msgpack:"R,omitempty"`
	HTTP      string            `msgpack:"H,omitempty"`
	Version   string            `msgpack:"V,omitempty"`
	Slots     int               `msgpack:"s,omitempty"`
	Started   int64             `msgpack:"t,omitempty"` // Unix ms
	Cut       bool              `msgpack:"x,omitempty"` // labels are missing
	Labels    map[string]string `msgpack:"l,omitempty"`
}

var errMeta = errors.New("malformed metadata")

// nodeName is a process's name in memberlist: never used again.
func nodeName(m Member) string {
	return string(m.Role) + "/" + m.Name + "/" + m.Boot
}

func checkSelf(m Member) error {
	switch {
	case m.Role != RoleServer && m.Role != RoleWorker:
		return fmt.Errorf("role must be server or worker, not %q", m.Role)
	case m.Name == "" || strings.Contains(m.Name, "/"):
		return fmt.Errorf("name must not be empty or contain a slash: %q", m.Name)
	case m.Boot == "" || strings.Contains(m.Boot, "/"):
		return fmt.Errorf("boot must not be empty or contain a slash: %q", m.Boot)
	}
	_, err := encodeMeta(m)
	return err
}

// encodeMeta fits a member into memberlist's limit, with as many of its labels,
// by key, as there is room for.
func encodeMeta(m Member) ([]byte, error) {
	w := meta{
		Role: string(m.Role), Name: m.Name, Boot: m.Boot, ClusterID: m.ClusterID,
		RPC: m.RPC, HTTP: m.HTTP, Version: m.Version, Slots: m.Slots,
		Started: m.Started.UnixMilli(), Labels: m.Labels,
	}
	b, err := marshal(&w)
	if err != nil || len(b) <= memberlist.MetaMaxSize {
		return b, err
	}
	w.Cut, w.Labels = true, nil
	if b, err = marshal(&w); err != nil {
		return nil, err
	}
	room := memberlist.MetaMaxSize - len(b)
	if room < 0 {
		return nil, fmt.Errorf("name, addresses and version take %d bytes in the gossip, over the limit of %d: shorten them", len(b), memberlist.MetaMaxSize)
	}
	w.Labels = make(map[string]string)
	room -= stringSize("l") + 3 // the map's head
	for _, k := range slices.Sorted(maps.Keys(m.Labels)) {
		n := stringSize(k) + stringSize(m.Labels[k])
		if n > room {
			continue
		}
		room -= n
		w.Labels[k] = m.Labels[k]
	}
	return marshal(&w)
}

// stringSize is the length of a string in msgpack.
func stringSize(s string) int {
	switch n := len(s); {
	case n < 32:
		return n + 1
	case n < 256:
		return n + 2
	default:
		return n + 3
	}
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	enc.SetSortMapKeys(true)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// decodeMember reads what a node says of itself. It must be what its name in
// memberlist says, or one member could speak for another.
func decodeMember(n *memberlist.Node) (Member, error) {
	var w meta
	if len(n.Meta) > memberlist.MetaMaxSize {
		return Member{}, fmt.Errorf("%w: %d bytes", errMeta, len(n.Meta))
	}
	if err := msgpack.Unmarshal(n.Meta, &w); err != nil {
		return Member{}, fmt.Errorf("%w: %w", errMeta, err)
	}
	m := Member{
		Role: Role(w.Role), Name: w.Name, Boot: w.Boot, ClusterID: w.ClusterID,
		Gossip: n.Address(), RPC: w.RPC, HTTP: w.HTTP, Version: w.Version, Slots: w.Slots,
		Labels: w.Labels, LabelsCut: w.Cut, Started: time.UnixMilli(w.Started),
	}
	if m.Role != RoleServer && m.Role != RoleWorker {
		return Member{}, fmt.Errorf("%w: role %q", errMeta, w.Role)
	}
	if nodeName(m) != n.Name {
		return Member{}, fmt.Errorf("%w: it says it is %q", errMeta, nodeName(m))
	}
	return m, nil
}

// goodbye is the message of a member that leaves.
type goodbye struct {
	Node string `msgpack:"g"`
}

func encodeGoodbye(node string) []byte {
	b, err := marshal(&goodbye{Node: node})
	if err != nil {
		panic(err) // a string always encodes
	}
	return b
}

func decodeGoodbye(b []byte) (string, error) {
	var g goodbye
	if len(b) > memberlist.MetaMaxSize {
		return "", fmt.Errorf("%w: %d bytes", errMeta, len(b))
	}
	err := msgpack.Unmarshal(b, &g)
	return g.Node, err
}
