package server

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/job"
)

func TestConfigDefaults(t *testing.T) {
	c := Config{Name: "s1"}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	if c.BootstrapExpect != 1 || c.HTTP != "127.0.0.1:7480" || c.LeaseTTL != 10*time.Second {
		t.Errorf("defaults are %+v", c)
	}
	slow := Config{Name: "s1", RaftMultiplier: 5}
	if err := slow.complete(); err != nil {
		t.Fatal(err)
	}
	if slow.LeaseTTL < leasePerTimeout*5*time.Second {
		t.Errorf("the lease is %s with an election time-out of 5 s", slow.LeaseTTL)
	}
}

// An address that is taken is said with its flag and what to do.
func TestATakenAddressIsSaid(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	for flag, cfg := range map[string]Config{
		"--http": {HTTP: address, RPC: "127.0.0.1:0"}, "--rpc": {HTTP: "127.0.0.1:0", RPC: address},
	} {
		cfg.Name, cfg.DataDir, cfg.Gossip, cfg.Logger = "s1", t.TempDir(), "127.0.0.1:0", testLog(t)
		_, err := New(cfg)
		if err == nil || !strings.Contains(err.Error(), "("+flag+")") || !strings.Contains(err.Error(), "stop what listens there, or choose another address") {
			t.Errorf("%s on a taken address gave %v", flag, err)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		field string
		c     Config
	}{
		{"a name with a slash", "name", Config{Name: "a/b"}},
		{"an address without a port", "http", Config{Name: "s", HTTP: "127.0.0.1"}},
		{"a port that none is", "http", Config{Name: "s", HTTP: "127.0.0.1:99999"}},
		{"an advertised address without a port", "advertise-rpc", Config{Name: "s", AdvertiseRPC: "10.0.0.1"}},
		{"an advertised address that nobody can dial", "advertise-gossip", Config{Name: "s", AdvertiseGossip: "0.0.0.0:7482"}},
		{"a public listener", "http", Config{Name: "s", HTTP: "0.0.0.0:7480"}},
		{"a public gossip listener", "gossip", Config{Name: "s", Gossip: ":7482"}},
		{"a host name that may be public", "rpc", Config{Name: "s", RPC: "example.org:7481"}},
		{"three servers that know nobody", "join", Config{Name: "s", BootstrapExpect: 3}},
		{"negative expectation", "bootstrap-expect", Config{Name: "s", BootstrapExpect: -1}},
		{"a multiplier beyond 10", "raft-multiplier", Config{Name: "s", RaftMultiplier: 11}},
		{"a lease shorter than elections", "lease-ttl", Config{Name: "s", LeaseTTL: time.Second}},
		{"a lease shorter than long elections", "lease-ttl", Config{Name: "s", LeaseTTL: 11 * time.Second, ElectionTimeout: 3 * time.Second}},
		{"a lease without end", "lease-ttl", Config{Name: "s", LeaseTTL: 2 * time.Hour}},
		{"an election in no time", "election-timeout", Config{Name: "s", ElectionTimeout: time.Millisecond}},
		{"no retention at all", "retention", Config{Name: "s", Retention: time.Millisecond}},
	} {
		err := tc.c.complete()
		if e := job.AsError(err); e == nil || e.Code != job.CodeInvalid || e.Field != tc.field {
			t.Errorf("%s: got %v, want an invalid %s", tc.name, err, tc.field)
		}
	}
	open := Config{Name: "s", HTTP: "0.0.0.0:7480", Insecure: true}
	if err := open.complete(); err != nil {
		t.Errorf("--insecure still refused: %v", err)
	}
	if err := (&Config{Name: "s", HTTP: "localhost:0"}).complete(); err != nil && strings.Contains(err.Error(), "http") {
		t.Errorf("localhost was refused: %v", err)
	}
}
