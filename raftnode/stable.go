package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// Raft's keys in its stable store, and ours for all of it.
const (
	keyVoteTerm = "LastVoteTerm"
	keyVoteCand = "LastVoteCand"
	keyTerm     = "CurrentTerm"
	keyStable   = "axd.Stable"
)

// stable is what a server must never forget: one record with a checksum, there
// from the beginning, so that a damaged page can't take a part of it unnoticed.
type stable struct {
	term      uint64 // the newest that was seen
	voteTerm  uint64 // of the last vote; 0: none
	candidate string // to whom it went
}

const stableHead = 16

func (v stable) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, v.term)
	b = binary.BigEndian.AppendUint64(b, v.voteTerm)
	b = append(b, v.candidate...)
	return binary.BigEndian.AppendUint64(b, xxhash.Sum64(b))
}

func decodeStable(b []byte) (stable, error) {
	n := len(b) - 8
	if n < stableHead || binary.BigEndian.Uint64(b[n:]) != xxhash.Sum64(b[:n]) {
		return stable{}, fmt.Errorf("the record of term and vote: %w", errDamaged)
	}
	return stable{
		term: binary.BigEndian.Uint64(b), voteTerm: binary.BigEndian.Uint64(b[8:]), candidate: string(b[stableHead:n]),
	}, nil
}

// loadStable reads the record; one that is missing was lost.
func (s *logStore) loadStable() error {
	b, err := s.backend.Get([]byte(keyStable))
	if err != nil {
		return fmt.Errorf("the record of term and vote: %w", errors.Join(errDamaged, err))
	}
	if s.stable, err = decodeStable(b); err != nil {
		return err
	}
	if s.stable.candidate == s.self {
		s.selfVote.Store(s.stable.voteTerm)
	}
	return nil
}

func (s *logStore) storeStable(v stable) error {
	err := s.do("store term and vote", ExitLogFailed, func() error { return s.backend.Set([]byte(keyStable), v.encode()) })
	if err == nil {
		s.stable = v
	}
	return err
}

// Set stores a candidate. Raft writes a vote as term, then candidate; both go
// into one record when the candidate arrives, so a crash between the two can't
// leave the new term with the old candidate.
func (s *logStore) Set(key, value []byte) error {
	if string(key) != keyVoteCand {
		return unknownKey(key)
	}
	v := s.stable
	v.voteTerm, v.candidate = s.voteTerm, string(value)
	if err := s.storeStable(v); err != nil {
		return err
	}
	if v.candidate == s.self {
		s.selfVote.Store(v.voteTerm)
	}
	return nil
}

// Get returns a candidate. An absent value is an error whose text is "not
// found", which raft compares.
func (s *logStore) Get(key []byte) ([]byte, error) {
	if string(key) != keyVoteCand {
		return nil, unknownKey(key)
	}
	if s.stable.voteTerm == 0 {
		return nil, raftboltdb.ErrKeyNotFound
	}
	return []byte(s.stable.candidate), nil
}

// SetUint64 is Set for terms.
func (s *logStore) SetUint64(key []byte, value uint64) error {
	switch string(key) {
	case keyVoteTerm:
		s.voteTerm = value // written by Set with the candidate
		return nil
	case keyTerm:
		v := s.stable
		v.term = value
		return s.storeStable(v)
	}
	return unknownKey(key)
}

// GetUint64 is Get for terms.
func (s *logStore) GetUint64(key []byte) (uint64, error) {
	var value uint64
	switch string(key) {
	case keyVoteTerm:
		value = s.stable.voteTerm
	case keyTerm:
		value = s.stable.term
	default:
		return 0, unknownKey(key)
	}
	if value == 0 {
		return 0, raftboltdb.ErrKeyNotFound
	}
	return value, nil
}

// unknownKey tells that raft keeps something new, which needs a place here.
func unknownKey(key []byte) error {
	return fmt.Errorf("the stable store has no value named %q", key)
}
