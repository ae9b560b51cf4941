package resources

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func validatePodSecurity(s *corev1.PodSpec, allow PodAllowances, spec *field.Path) field.ErrorList {
	var errs field.ErrorList
	path := spec.Child("securityContext")
	if sc := s.SecurityContext; sc != nil {
		errs = append(errs, validateIDs(path, sc.RunAsUser, sc.RunAsGroup)...)
		if sc.FSGroup != nil {
			errs = append(errs, invalidAll(path.Child("fsGroup"), *sc.FSGroup, validation.IsValidGroupID(*sc.FSGroup))...)
		}
		for i, g := range sc.SupplementalGroups {
			errs = append(errs, invalidAll(path.Child("supplementalGroups").Index(i), g, validation.IsValidGroupID(g))...)
		}
		if p := sc.SupplementalGroupsPolicy; p != nil {
			errs = append(errs, supported(path.Child("supplementalGroupsPolicy"), *p, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
		}
		if p := sc.FSGroupChangePolicy; p != nil {
			errs = append(errs, supported(path.Child("fsGroupChangePolicy"), *p, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)...)
		}
		for i, c := range sc.Sysctls {
			p := path.Child("sysctls").Index(i)
			switch {
			case c.Name == "":
				errs = append(errs, field.Required(p.Child("name"), ""))
			case !isSysctlName(c.Name):
				errs = append(errs, field.Invalid(p.Child("name"), c.Name, "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"))
			case slices.ContainsFunc(sc.Sysctls[:i], func(o corev1.Sysctl) bool { return o.Name == c.Name }):
				errs = append(errs, field.Duplicate(p.Child("name"), c.Name))
			}
			if of := hostSysctl(c.Name, s); of != "" && !allow.hostSysctls {
				errs = append(errs, field.Invalid(p.Child("name"), c.Name, "may not be specified when '"+of+"' is true"))
			}
		}
		errs = append(errs, validateProfiles(path, sc.SeccompProfile, sc.AppArmorProfile)...)
		errs = append(errs, validateWindowsOptions(sc.WindowsOptions, path.Child("windowsOptions"))...)
		if p := sc.SELinuxChangePolicy; p != nil {
			// MountOption is behind a gate that is off.
			policies := []corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyRecursive}
			if allow.anyChangePolicy {
				policies = []corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive}
			}
			errs = append(errs, supported(path.Child("seLinuxChangePolicy"), *p, policies...)...)
		}
	}
	errs = append(errs, validateHostProcess(s, spec)...)
	if ptr.Deref(s.ShareProcessNamespace, false) && s.HostPID {
		errs = append(errs, field.Invalid(path.Child("shareProcessNamespace"), s.ShareProcessNamespace, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	if !ptr.Deref(s.HostUsers, true) {
		for _, f := range []struct {
			name string
			set  bool
		}{{"hostNetwork", s.HostNetwork && !allow.userNetwork}, {"HostPID", s.HostPID}, {"HostIPC", s.HostIPC}} {
			if f.set {
				errs = append(errs, field.Forbidden(spec.Child(f.name), "when `hostUsers` is false"))
			}
		}
		if !allow.userDevices {
			errs = append(errs, validateNoDevices(s, spec)...)
		}
	}
	return errs
}

// validateNoDevices: the owner of a block device cannot be mapped to one of the
// pod's own user namespace.
func validateNoDevices(s *corev1.PodSpec, spec *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(list string, i int, c *corev1.Container) {
		if len(c.VolumeDevices) > 0 {
			errs = append(errs, field.Forbidden(spec.Child(list).Index(i).Child("volumeDevices"), "when `hostUsers` is false"))
		}
	}
	for i := range s.InitContainers {
		check("initContainers", i, &s.InitContainers[i])
	}
	for i := range s.Containers {
		check("containers", i, &s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		check("ephemeralContainers", i, (*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return errs
}

// hostSysctl names the field by which a pod shares with its host the namespace
// that a sysctl is of: what belongs to a namespace of the pod's own is not set
// in the host's. It is empty for any other sysctl.
func hostSysctl(name string, s *corev1.PodSpec) string {
	name = strings.ReplaceAll(name, "/", ".")
	switch {
	case s.HostNetwork && strings.HasPrefix(name, "net."):
		return "hostNetwork"
	case s.HostIPC && (name == "kernel.sem" || strings.HasPrefix(name, "kernel.shm") || strings.HasPrefix(name, "kernel.msg") || strings.HasPrefix(name, "fs.mqueue.")):
		return "hostIPC"
	}
	return ""
}

func (v *specValidator) validateSecurity(sc *corev1.SecurityContext, path *field.Path) field.ErrorList {
	if sc == nil {
		return nil
	}
	errs := validateIDs(path, sc.RunAsUser, sc.RunAsGroup)
	if m := sc.ProcMount; m != nil {
		errs = append(errs, supported(path.Child("procMount"), *m, corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
		if *m == corev1.UnmaskedProcMount && ptr.Deref(v.spec.HostUsers, true) {
			errs = append(errs, field.Invalid(path.Child("procMount"), sc.ProcMount, "`hostUsers` must be false to use `Unmasked`"))
		}
	}
	if !ptr.Deref(sc.AllowPrivilegeEscalation, true) {
		if ptr.Deref(sc.Privileged, false) {
			errs = append(errs, field.Invalid(path, sc, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
		}
		if sc.Capabilities != nil && slices.Contains(sc.Capabilities.Add, "CAP_SYS_ADMIN") {
			errs = append(errs, field.Invalid(path, sc, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
		}
	}
	errs = append(errs, validateProfiles(path, sc.SeccompProfile, sc.AppArmorProfile)...)
	return append(errs, validateWindowsOptions(sc.WindowsOptions, path.Child("windowsOptions"))...)
}

func validateIDs(path *field.Path, user, group *int64) field.ErrorList {
	var errs field.ErrorList
	if user != nil {
		errs = append(errs, invalidAll(path.Child("runAsUser"), *user, validation.IsValidUserID(*user))...)
	}
	if group != nil {
		errs = append(errs, invalidAll(path.Child("runAsGroup"), *group, validation.IsValidGroupID(*group))...)
	}
	return errs
}

func validateProfiles(path *field.Path, s *corev1.SeccompProfile, a *corev1.AppArmorProfile) field.ErrorList {
	var errs field.ErrorList
	if s != nil {
		p := path.Child("seccompProfile")
		switch s.Type {
		case corev1.SeccompProfileTypeLocalhost:
			if s.LocalhostProfile == nil {
				errs = append(errs, field.Required(p.Child("localhostProfile"), "must be set when seccomp type is Localhost"))
			} else {
				errs = append(errs, validateDescending(*s.LocalhostProfile, p.Child("localhostProfile"))...)
			}
		default:
			if s.LocalhostProfile != nil {
				errs = append(errs, field.Invalid(p.Child("localhostProfile"), s, "can only be set when seccomp type is Localhost"))
			}
		}
		if s.Type == "" {
			errs = append(errs, field.Required(p.Child("type"), "type is required when seccompProfile is set"))
		} else {
			errs = append(errs, listed(p.Child("type"), s.Type, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)...)
		}
	}
	if a != nil {
		errs = append(errs, validateAppArmor(a, path.Child("appArmorProfile"))...)
	}
	return errs
}

func validateAppArmor(a *corev1.AppArmorProfile, p *field.Path) field.ErrorList {
	const longest = 4095 // of a path
	var errs field.ErrorList
	name := p.Child("localhostProfile")
	switch a.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		local := ptr.Deref(a.LocalhostProfile, "")
		switch {
		case strings.TrimSpace(local) != local:
			errs = append(errs, field.Invalid(name, local, "must not be padded with whitespace"))
		case local == "":
			errs = append(errs, field.Required(name, "must be set when AppArmor type is Localhost"))
		}
		if len(local) > longest {
			errs = append(errs, field.TooLong(name, "", longest))
		}
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if a.LocalhostProfile != nil {
			errs = append(errs, field.Invalid(name, a.LocalhostProfile, "can only be set when AppArmor type is Localhost"))
		}
	case "":
		errs = append(errs, field.Required(p.Child("type"), "type is required when appArmorProfile is set"))
	default:
		errs = append(errs, supported(p.Child("type"), a.Type, corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)...)
	}
	return errs
}

// isSysctlName: segments of lower-case letters, digits, - and _, which begin
// and end with a letter or digit, between dots or slashes.
func isSysctlName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	edge := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case edge(c):
		case c == '.' || c == '/':
			if i == 0 || i == len(name)-1 || !edge(name[i-1]) || !edge(name[i+1]) {
				return false
			}
		case c == '-' || c == '_':
			if i == 0 || i == len(name)-1 {
				return false
			}
		default:
			return false
		}
	}
	return true
}
