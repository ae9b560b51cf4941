package pullrecord

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// Policy says for which images on the node a pod's credentials are checked.
type Policy struct {
	Mode kubeletv1beta1.ImagePullCredentialsVerificationPolicy
	// Allowed are images of mode NeverVerifyAllowlistedImages: names without tag
	// and digest, or all below a path: registry.example.com/team/*.
	Allowed []string
}

// Check says what is wrong with the policy.
func (p Policy) Check() error {
	switch p.Mode {
	case kubeletv1beta1.NeverVerify, kubeletv1beta1.NeverVerifyPreloadedImages, kubeletv1beta1.AlwaysVerify, kubeletv1beta1.NeverVerifyAllowlistedImages:
	default:
		return fmt.Errorf("unknown policy %q", p.Mode)
	}
	for _, pattern := range p.Allowed {
		if err := checkPattern(pattern); err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		}
	}
	return nil
}

func checkPattern(pattern string) error {
	name, below := strings.CutSuffix(pattern, "/*")
	switch {
	case strings.TrimSpace(pattern) != pattern || name == "":
		return errors.New("want an image without tag and digest, or a registry and a path that end in /*")
	case strings.Contains(name, "*"):
		return errors.New("* may stand at the end only, after a slash")
	case below:
		return nil
	}
	ref, err := reference.Parse(name)
	if err != nil {
		return err
	}
	_, tagged := ref.(reference.Tagged)
	_, digested := ref.(reference.Digested)
	if tagged || digested {
		return errors.New("neither tag nor digest is accepted")
	}
	return nil
}

// verifies tells that a pod's credentials for an image are checked; pulled says
// that the image was pulled for a pod at some time.
func (p Policy) verifies(image string, pulled bool) bool {
	switch p.Mode {
	case kubeletv1beta1.NeverVerify:
		return false
	case kubeletv1beta1.NeverVerifyPreloadedImages:
		return pulled
	case kubeletv1beta1.NeverVerifyAllowlistedImages:
		return !p.allowed(image)
	}
	return true
}

func (p Policy) allowed(image string) bool {
	full, err := repository(image)
	if err != nil {
		return false
	}
	for _, pattern := range p.Allowed {
		if prefix, below := strings.CutSuffix(pattern, "*"); below {
			if strings.HasPrefix(full, prefix) {
				return true
			}
		} else if name, err := repository(pattern); err == nil && name == full {
			return true
		}
	}
	return false
}

// repository is an image's name in full, without tag and digest.
func repository(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("image %q: %w", image, err)
	}
	return reference.TrimNamed(named).Name(), nil
}
