package catalog

import (
	"fmt"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// Policy says what becomes of a bundle whose signature does not count.
type Policy string

// Policies.
const (
	PolicyOff     Policy = "off"     // signatures are not looked at
	PolicyWarn    Policy = "warn"    // it is said, and the bundle is taken
	PolicyRequire Policy = "require" // the bundle is refused
)

// judge applies the policy to a bundle; reference is what was asked for of a
// registry, or empty.
func (c *Catalog) judge(m *manifest.Manifest, reference string, image []byte, signatures []Signature) (*Verified, error) {
	if c.cfg.Policy == PolicyOff {
		return nil, nil
	}
	v, err := verify(m, reference, image, signatures, c.keys, time.Now())
	if err != nil && c.cfg.Policy == PolicyWarn {
		c.log.Warn("plugin bundle is taken although its signature does not count", "error", err)
		return nil, nil
	}
	return v, err
}

func readKeys(files []string) ([]*PublicKey, error) {
	var keys []*PublicKey
	for _, f := range files {
		k, err := ReadPublicKey(f)
		if err != nil {
			return nil, fmt.Errorf("plugins.keys: %w", err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}
