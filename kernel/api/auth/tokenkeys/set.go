package tokenkeys

import (
	"crypto"
	"crypto/ecdsa"
	"slices"

	"pintle.dev/pintle/kernel/api/auth/token"
)

// Set is the keys of one cluster. It is not changed: methods give another.
type Set struct {
	Signing *ecdsa.PrivateKey
	Next    *ecdsa.PrivateKey  // signs after a rotation; nil: none is wanted
	Former  []crypto.PublicKey // signed before, and verify
	Revoked []crypto.PublicKey // verify no more
}

// ID names a key, as the header of a token does.
func ID(key crypto.PublicKey) string {
	id, err := token.KeyID(key)
	if err != nil {
		return "" // a key of a kind that no file is read as
	}
	return id
}

func has(keys []crypto.PublicKey, key crypto.PublicKey) bool {
	id := ID(key)
	return slices.ContainsFunc(keys, func(k crypto.PublicKey) bool { return ID(k) == id })
}

// with adds keys that are not there.
func with(keys []crypto.PublicKey, more ...crypto.PublicKey) []crypto.PublicKey {
	keys = slices.Clone(keys)
	for _, k := range more {
		if !has(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// All are the keys of the set, whatever they are good for.
func (s Set) All() []crypto.PublicKey {
	var out []crypto.PublicKey
	if s.Signing != nil {
		out = with(out, &s.Signing.PublicKey)
	}
	if s.Next != nil {
		out = with(out, &s.Next.PublicKey)
	}
	return with(with(out, s.Former...), s.Revoked...)
}

// Knows says whether a key is in the set, whatever it is good for.
func (s Set) Knows(key crypto.PublicKey) bool { return has(s.All(), key) }

// Signer is the key that signs, or nil where that was revoked.
func (s Set) Signer() *ecdsa.PrivateKey {
	if s.Signing == nil || has(s.Revoked, &s.Signing.PublicKey) {
		return nil
	}
	return s.Signing
}

// Verifying are the keys that verify beside the one that signs.
func (s Set) Verifying() []crypto.PublicKey {
	return slices.DeleteFunc(s.All(), func(k crypto.PublicKey) bool {
		return has(s.Revoked, k) || s.Signing != nil && ID(k) == ID(&s.Signing.PublicKey)
	})
}

// Rotate has the next key sign. The former verifies on.
func (s Set) Rotate() Set {
	if s.Next == nil {
		return s
	}
	return Set{Signing: s.Next, Former: with(s.Former, &s.Signing.PublicKey), Revoked: s.Revoked}.clean()
}

// Revoke has a key verify no more.
func (s Set) Revoke(key crypto.PublicKey) Set {
	s.Revoked = with(s.Revoked, key)
	return s.clean()
}

// clean takes from the former keys what is said of them elsewhere.
func (s Set) clean() Set {
	if s.Next != nil && (id(s.Next) == id(s.Signing) || has(s.Revoked, &s.Next.PublicKey)) {
		s.Next = nil
	}
	s.Former = slices.DeleteFunc(slices.Clone(s.Former), func(k crypto.PublicKey) bool {
		return has(s.Revoked, k) || ID(k) == id(s.Signing) || ID(k) == id(s.Next)
	})
	return s
}

// Merge brings a kernel's own set to that which the kernels share. The shared one
// says which key signs and which is next; a kernel asks for a rotation by a next
// key that nobody knows, while none is under way. Verifying and revoked keys are
// those of both. A shared set that is older, since etcd was restored from a backup,
// takes no key back: who knows the other's key is the newer one.
func Merge(own, shared Set) Set {
	if own.Signing != nil && !shared.Knows(&own.Signing.PublicKey) && own.Knows(&shared.Signing.PublicKey) {
		shared.Former = with(shared.Former, &shared.Signing.PublicKey)
		shared.Signing = own.Signing
	}
	out := Set{Signing: shared.Signing, Next: shared.Next, Former: with(shared.Former, own.Former...), Revoked: with(shared.Revoked, own.Revoked...)}
	if out.Next == nil && own.Next != nil && !shared.Knows(&own.Next.PublicKey) {
		out.Next = own.Next
	}
	// A key that signed here is one of the cluster's, where another has taken its place.
	if own.Signing != nil && shared.Knows(&own.Signing.PublicKey) {
		out.Former = with(out.Former, &own.Signing.PublicKey)
	}
	return out.clean()
}

// Same says whether two sets say the same.
func (s Set) Same(o Set) bool {
	return id(s.Signing) == id(o.Signing) && id(s.Next) == id(o.Next) && same(s.Former, o.Former) && same(s.Revoked, o.Revoked)
}

func id(key *ecdsa.PrivateKey) string {
	if key == nil {
		return ""
	}
	return ID(&key.PublicKey)
}

func same(a, b []crypto.PublicKey) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(k crypto.PublicKey) bool { return !has(b, k) })
}
