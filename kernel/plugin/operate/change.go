package operate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Enable switches a plugin on: in the given profiles, or where it was; with a
// weight, if that is not 0.
func Enable(profiles []string, weight int64) func(*v1alpha1.Plugin) error {
	return func(o *v1alpha1.Plugin) error {
		o.Spec.Enabled = ptr.To(true)
		if len(profiles) > 0 {
			o.Spec.Profiles = profiles
		}
		if weight != 0 {
			o.Spec.Weight = &weight
		}
		return nil
	}
}

// Disable switches a plugin off: in all profiles, or in the given ones, in which
// it has to be used.
func Disable(profiles []string) func(*v1alpha1.Plugin) error {
	return func(o *v1alpha1.Plugin) error {
		for _, p := range profiles {
			if !slices.Contains(o.Spec.Profiles, p) {
				return fmt.Errorf("profile %s does not use it; these do: %s", p, cmp.Or(strings.Join(o.Spec.Profiles, ", "), "none"))
			}
		}
		left := slices.DeleteFunc(slices.Clone(o.Spec.Profiles), func(p string) bool { return slices.Contains(profiles, p) })
		if len(profiles) == 0 || len(left) == 0 {
			// The profiles stay, so that it can be enabled where it was.
			o.Spec.Enabled = ptr.To(false)
			return nil
		}
		o.Spec.Profiles = left
		return nil
	}
}

// Upgrade turns to another build of the bundle; without both, to the one that is
// installed for use.
func Upgrade(version, digest string) func(*v1alpha1.Plugin) error {
	return func(o *v1alpha1.Plugin) error {
		o.Spec.Version, o.Spec.Digest = version, digest
		return nil
	}
}

// ErrNoPrevious is returned where there is nothing to roll back to.
var ErrNoPrevious = errors.New("no former version is remembered")

// Rollback turns to what was in force before, or to what was in force with that
// version last: the version with the configurations and permissions of that time.
func Rollback(version string) func(*v1alpha1.Plugin) error {
	return func(o *v1alpha1.Plugin) error {
		var have []string
		for _, p := range o.Status.Previous {
			if version == "" || p.Version == version {
				if p.Revision == 0 && version != "" { // of a host that remembered builds alone
					o.Spec.Version, o.Spec.Digest, o.Spec.Transport = p.Version, p.Digest, ""
					return nil
				}
				o.Spec.RollbackTo = &v1alpha1.PluginRollback{Revision: p.Revision}
				return nil
			}
			have = append(have, p.Version)
		}
		if len(have) > 0 {
			return fmt.Errorf("version %s did not run before; these did: %s", version, strings.Join(have, ", "))
		}
		return ErrNoPrevious
	}
}
