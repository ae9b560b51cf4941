package credentials

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/auth/tokenkeys"
	"pintle.dev/pintle/kernel/secretfile"
)

// Rotate asks for another key of tokens, in a directory whose kernel runs or not. It
// returns the new key's id.
func Rotate(dir string) (string, error) {
	return change(dir, func(keys tokenkeys.Set) (next tokenkeys.Set, id string, err error) {
		if keys.Next != nil {
			return keys, "", fmt.Errorf("a rotation to key %s is under way: it ends when the kernel runs; to give it up, stop the kernel and remove %s",
				tokenkeys.ID(&keys.Next.PublicKey), filepath.Join(dir, tokenkeys.NextFile))
		}
		next = keys
		if next.Next, err = tokenkeys.New(); err != nil {
			return keys, "", err
		}
		return next, tokenkeys.ID(&next.Next.PublicKey), nil
	})
}

// leastID is the shortest beginning of a key's id that names it.
const leastID = 6

// RevokeKey has a former key of tokens verify no more, named by its id or the
// beginning of it. It returns the whole id.
func RevokeKey(dir, name string) (string, error) {
	return change(dir, func(keys tokenkeys.Set) (next tokenkeys.Set, id string, err error) {
		var found []crypto.PublicKey
		for _, key := range keys.All() {
			if len(name) >= leastID && strings.HasPrefix(tokenkeys.ID(key), name) {
				found = append(found, key)
			}
		}
		if len(found) != 1 {
			return keys, "", fmt.Errorf("token key %q: %d keys begin so; want at least %d characters of one that pintle pki list shows", name, len(found), leastID)
		}
		id = tokenkeys.ID(found[0])
		switch {
		case id == tokenkeys.ID(&keys.Signing.PublicKey):
			return keys, "", fmt.Errorf("token key %s signs: rotate it first (pintle pki rotate sa), then revoke it", id)
		case keys.Next != nil && id == tokenkeys.ID(&keys.Next.PublicKey):
			return keys, "", fmt.Errorf("token key %s is about to sign: wait for the end of the rotation, rotate again, then revoke it", id)
		}
		return keys.Revoke(found[0]), id, nil
	})
}

// change replaces the keys of tokens in a directory under its lock. It returns the id
// of the key that the change is about.
func change(dir string, to func(tokenkeys.Set) (next tokenkeys.Set, id string, err error)) (string, error) {
	if _, err := pki.OpenAuthority(dir); err != nil {
		return "", err
	}
	unlock, err := secretfile.Lock(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	keys, err := tokenkeys.Read(dir)
	if err != nil {
		return "", err
	}
	next, id, err := to(keys)
	if err != nil {
		return "", err
	}
	return id, tokenkeys.Write(dir, keys, next)
}

// awaitEvery is how often Await looks.
const awaitEvery = 50 * time.Millisecond

// Await waits until the kernel that runs on a directory has taken something up, or
// ctx ends. running is false where no kernel runs.
func Await(ctx context.Context, dir string, taken func(InForce) bool) (running bool, err error) {
	tick := time.NewTicker(awaitEvery)
	defer tick.Stop()
	var last InForce
	for secretfile.Held(dir) {
		if data, err := secretfile.Read(filepath.Join(dir, inForceFile)); err == nil {
			var now InForce
			if err := json.Unmarshal(data, &now); err != nil {
				return true, fmt.Errorf("%s: %w", filepath.Join(dir, inForceFile), err)
			}
			if last = now; taken(now) {
				return true, nil
			}
		}
		select {
		case <-ctx.Done():
			if last.Fault != "" {
				return true, fmt.Errorf("the kernel has not taken it up: %s", last.Fault)
			}
			return true, errors.New("the kernel has not taken it up: look at its log")
		case <-tick.C:
		}
	}
	return false, nil
}
