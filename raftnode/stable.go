package raftnode

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// Set stores a value with its checksum. Raft writes a vote as term, then
// candidate; both go into one record when the candidate arrives, so a crash
// between the two can't leave the new term with the old candidate.
func (s *logStore) Set(key, value []byte) error {
	if string(key) != keyVoteCand {
		return s.put(key, value)
	}
	vote := binary.BigEndian.AppendUint64(nil, s.voteTerm)
	if err := s.put([]byte(keyVote), append(vote, value...)); err != nil {
		return err
	}
	if string(value) == s.self {
		s.selfVote.Store(s.voteTerm)
	}
	return nil
}

// Get reads a value and checks it. An absent one is an error whose text is
// "not found", which raft compares.
func (s *logStore) Get(key []byte) ([]byte, error) {
	if string(key) != keyVoteCand {
		return s.get(key)
	}
	vote, err := s.vote()
	if err != nil {
		return nil, err
	}
	return vote[8:], nil
}

// SetUint64 is Set for numbers.
func (s *logStore) SetUint64(key []byte, value uint64) error {
	if string(key) == keyVoteTerm {
		s.voteTerm = value // written by Set with the candidate
		return nil
	}
	return s.put(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 is Get for numbers.
func (s *logStore) GetUint64(key []byte) (uint64, error) {
	if string(key) == keyVoteTerm {
		vote, err := s.vote()
		if err != nil {
			return 0, err
		}
		return binary.BigEndian.Uint64(vote), nil
	}
	value, err := s.get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, s.fail("read "+string(key), ExitCorruptLog, errDamaged)
	}
	return binary.BigEndian.Uint64(value), nil
}

// vote returns the last vote: 8 bytes of term, then the candidate.
func (s *logStore) vote() ([]byte, error) {
	vote, err := s.get([]byte(keyVote))
	if err == nil && len(vote) < 8 {
		err = s.fail("read the last vote", ExitCorruptLog, errDamaged)
	}
	return vote, err
}

func (s *logStore) put(key, value []byte) error {
	sealed := binary.BigEndian.AppendUint64(append([]byte(nil), value...), valueSum(key, value))
	return s.do("store "+string(key), ExitLogFailed, func() error { return s.backend.Set(key, sealed) })
}

func (s *logStore) get(key []byte) (value []byte, err error) {
	var missing bool
	err = s.do("read "+string(key), ExitCorruptLog, func() error {
		sealed, err := s.backend.Get(key)
		if err != nil {
			missing = err.Error() == raftboltdb.ErrKeyNotFound.Error()
			if missing {
				return nil
			}
			return err
		}
		n := len(sealed) - 8
		if n < 0 || binary.BigEndian.Uint64(sealed[n:]) != valueSum(key, sealed[:n]) {
			return fmt.Errorf("value of %s: %w", key, errDamaged)
		}
		value = sealed[:n]
		return nil
	})
	if missing {
		return nil, raftboltdb.ErrKeyNotFound
	}
	return value, err
}

func valueSum(key, value []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	d.Write(key) // a Digest never fails
	d.Write(value)
	return d.Sum64()
}
