package resources

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// Limits of Windows' names of users and of group managed service accounts.
const (
	longestGMSASpecKiB  = 64
	longestWindowsUser  = 104
	windowsDomainLength = 256
)

var (
	controlCharacter = regexp.MustCompile(`[[:cntrl:]]+`)
	netBIOSName      = regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`)
	windowsDNSDomain = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	badWindowsUser   = regexp.MustCompile(`["/\\:;|=,+*?<>@\[\]]`)
	emptyWindowsUser = regexp.MustCompile(`^[. ]+$`)
)

func validateWindowsOptions(o *corev1.WindowsSecurityContextOptions, path *field.Path) field.ErrorList {
	if o == nil {
		return nil
	}
	var errs field.ErrorList
	if n := o.GMSACredentialSpecName; n != nil {
		errs = append(errs, invalidAll(path.Child("gmsaCredentialSpecName"), n, validation.IsDNS1123Subdomain(*n))...)
	}
	if s := o.GMSACredentialSpec; s != nil {
		p := path.Child("gmsaCredentialSpec")
		if *s == "" {
			errs = append(errs, field.Invalid(p, s, "gmsaCredentialSpec cannot be an empty string"))
		} else if len(*s) > longestGMSASpecKiB<<10 {
			errs = append(errs, field.Invalid(p, s, fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", longestGMSASpecKiB)))
		}
	}
	if u := o.RunAsUserName; u != nil {
		errs = append(errs, invalidAll(path.Child("runAsUserName"), u, windowsUserFaults(*u))...)
	}
	return errs
}

// windowsUserFaults tells what is wrong with a user's name, DOMAIN\user or
// user.
func windowsUserFaults(name string) []string {
	switch {
	case name == "":
		return []string{"runAsUserName cannot be an empty string"}
	case controlCharacter.MatchString(name):
		return []string{"runAsUserName cannot contain control characters"}
	case strings.Count(name, `\`) > 1:
		return []string{"runAsUserName cannot contain more than one backslash"}
	}
	var out []string
	domain, user, qualified := strings.Cut(name, `\`)
	if !qualified {
		user = name
	}
	if qualified && len(domain) >= windowsDomainLength {
		out = append(out, fmt.Sprintf("runAsUserName's Domain length must be under %d characters", windowsDomainLength))
	}
	if qualified && !netBIOSName.MatchString(domain) && !windowsDNSDomain.MatchString(domain) {
		out = append(out, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	if user == "" {
		out = append(out, "runAsUserName's User cannot be empty")
	} else if len(user) > longestWindowsUser {
		out = append(out, fmt.Sprintf("runAsUserName's User length must not be longer than %d characters", longestWindowsUser))
	}
	if emptyWindowsUser.MatchString(user) {
		out = append(out, "runAsUserName's User cannot contain only periods or spaces")
	}
	if badWindowsUser.MatchString(user) {
		out = append(out, "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
	}
	return out
}

// validateHostProcess: containers that run on the Windows host do so all or
// none, and in its network.
func validateHostProcess(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	level := false
	if sc := s.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		level = ptr.Deref(sc.WindowsOptions.HostProcess, false)
	}
	host, other := 0, 0
	eachContainer(s, path, func(c *corev1.Container, _ *field.Path) {
		on := level
		if sc := c.SecurityContext; sc != nil && sc.WindowsOptions != nil {
			on = ptr.Deref(sc.WindowsOptions.HostProcess, level)
		}
		if on {
			host++
		} else {
			other++
		}
	})
	if host == 0 {
		return nil
	}
	var errs field.ErrorList
	if other > 0 {
		errs = append(errs, field.Invalid(path, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !s.HostNetwork {
		errs = append(errs, field.Invalid(path.Child("hostNetwork"), s.HostNetwork, "hostNetwork must be true if pod contains any hostProcess containers"))
	}
	return errs
}
