package container

import (
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Paths below /proc and /sys that a container with the default procMount may not see or write.
func maskedPaths() []string {
	return []string{"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap"}
}

func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// ImageUser is the user that an image asks for: a number, or a name.
type ImageUser struct {
	UID  *int64
	Name string
}

// effective merges the pod's security context under the container's own.
func effective(pod *corev1.Pod, c *corev1.Container) *corev1.SecurityContext {
	sc := &corev1.SecurityContext{}
	if p := pod.Spec.SecurityContext; p != nil {
		sc.RunAsUser, sc.RunAsGroup, sc.RunAsNonRoot, sc.SELinuxOptions = p.RunAsUser, p.RunAsGroup, p.RunAsNonRoot, p.SELinuxOptions
		sc.SeccompProfile, sc.AppArmorProfile = p.SeccompProfile, p.AppArmorProfile
	}
	o := c.SecurityContext
	if o == nil {
		return sc
	}
	if o.RunAsUser != nil {
		sc.RunAsUser = o.RunAsUser
	}
	if o.RunAsGroup != nil {
		sc.RunAsGroup = o.RunAsGroup
	}
	if o.RunAsNonRoot != nil {
		sc.RunAsNonRoot = o.RunAsNonRoot
	}
	if o.SELinuxOptions != nil {
		sc.SELinuxOptions = o.SELinuxOptions
	}
	if o.SeccompProfile != nil {
		sc.SeccompProfile = o.SeccompProfile
	}
	if o.AppArmorProfile != nil {
		sc.AppArmorProfile = o.AppArmorProfile
	}
	sc.Capabilities, sc.Privileged, sc.ReadOnlyRootFilesystem = o.Capabilities, o.Privileged, o.ReadOnlyRootFilesystem
	sc.AllowPrivilegeEscalation, sc.ProcMount = o.AllowPrivilegeEscalation, o.ProcMount
	return sc
}

// VerifyNonRoot refuses a container that must not run as root and would, or might.
func VerifyNonRoot(pod *corev1.Pod, c *corev1.Container, user ImageUser) error {
	sc := effective(pod, c)
	if sc.RunAsNonRoot == nil || !*sc.RunAsNonRoot {
		return nil
	}
	switch {
	case sc.RunAsUser != nil && *sc.RunAsUser == 0:
		return fmt.Errorf("container's runAsUser breaks non-root policy (pod: %q, container: %s)", Format(pod), c.Name)
	case sc.RunAsUser != nil:
		return nil
	case user.UID == nil && user.Name != "":
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root (pod: %q, container: %s)", user.Name, Format(pod), c.Name)
	case user.UID == nil || *user.UID == 0: // an image that names no user runs as root
		return fmt.Errorf("container has runAsNonRoot and image will run as root (pod: %q, container: %s)", Format(pod), c.Name)
	}
	return nil
}

// SeccompProfiles is how the node applies seccomp.
type SeccompProfiles struct {
	Dir     string // of Localhost profiles
	Default bool   // containers that name no profile get the runtime's
}

// Security is a container's security context as the runtime wants it.
func Security(pod *corev1.Pod, c *corev1.Container, user ImageUser, profiles SeccompProfiles) (*runtimeapi.LinuxContainerSecurityContext, error) {
	if pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers {
		// Its root would be the node's, of which the pod asked to be kept apart.
		return nil, fmt.Errorf("spec.hostUsers is false, and this release of the node agent has no user namespaces")
	}
	sc := effective(pod, c)
	out := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: Namespaces(pod),
		SelinuxOptions:   SELinux(sc.SELinuxOptions),
		Privileged:       sc.Privileged != nil && *sc.Privileged,
		ReadonlyRootfs:   sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem,
		NoNewPrivs:       sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
	}
	if sc.ProcMount == nil || *sc.ProcMount != corev1.UnmaskedProcMount {
		out.MaskedPaths, out.ReadonlyPaths = maskedPaths(), readonlyPaths()
	}
	if sc.Capabilities != nil {
		out.Capabilities = &runtimeapi.Capability{}
		for _, name := range sc.Capabilities.Add {
			out.Capabilities.AddCapabilities = append(out.Capabilities.AddCapabilities, string(name))
		}
		for _, name := range sc.Capabilities.Drop {
			out.Capabilities.DropCapabilities = append(out.Capabilities.DropCapabilities, string(name))
		}
	}
	switch {
	case sc.RunAsUser != nil:
		out.RunAsUser = &runtimeapi.Int64Value{Value: *sc.RunAsUser}
	case user.UID != nil:
		out.RunAsUser = &runtimeapi.Int64Value{Value: *user.UID}
	default:
		out.RunAsUsername = user.Name
	}
	if sc.RunAsGroup != nil {
		out.RunAsGroup = &runtimeapi.Int64Value{Value: *sc.RunAsGroup}
	}
	var err error
	if out.Seccomp, err = profiles.profile(sc.SeccompProfile, out.Privileged); err != nil {
		return nil, err
	}
	out.Apparmor, out.ApparmorProfile = appArmor(sc.AppArmorProfile, out.Privileged)
	out.SupplementalGroups, out.SupplementalGroupsPolicy = Groups(pod)
	return out, nil
}

// Groups are the pod's fsGroup and supplemental groups, and how they join those of the image.
func Groups(pod *corev1.Pod) ([]int64, runtimeapi.SupplementalGroupsPolicy) {
	sc := pod.Spec.SecurityContext
	if sc == nil {
		return nil, runtimeapi.SupplementalGroupsPolicy_Merge
	}
	var groups []int64
	if sc.FSGroup != nil {
		groups = append(groups, *sc.FSGroup)
	}
	groups = append(groups, sc.SupplementalGroups...)
	if sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict {
		return groups, runtimeapi.SupplementalGroupsPolicy_Strict
	}
	return groups, runtimeapi.SupplementalGroupsPolicy_Merge
}

// profile is the container's profile as the runtime takes it. Privileged containers have none.
func (s SeccompProfiles) profile(p *corev1.SeccompProfile, privileged bool) (*runtimeapi.SecurityProfile, error) {
	unconfined := &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	switch {
	case privileged, p == nil && !s.Default:
		return unconfined, nil
	case p == nil:
		p = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	switch p.Type {
	case corev1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case corev1.SeccompProfileTypeLocalhost:
		if p.LocalhostProfile == nil || *p.LocalhostProfile == "" {
			return nil, fmt.Errorf("localhostProfile must be set if seccompProfile type is Localhost.") //nolint:revive // upstream's words
		}
		if strings.Contains(*p.LocalhostProfile, "..") || filepath.IsAbs(*p.LocalhostProfile) {
			return nil, fmt.Errorf("seccomp profile %q must be a path below %s", *p.LocalhostProfile, s.Dir)
		}
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: filepath.Join(s.Dir, *p.LocalhostProfile)}, nil
	}
	return unconfined, nil
}

func appArmor(p *corev1.AppArmorProfile, privileged bool) (*runtimeapi.SecurityProfile, string) {
	if p == nil || privileged {
		return nil, ""
	}
	switch p.Type {
	case corev1.AppArmorProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, "runtime/default"
	case corev1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, "unconfined"
	case corev1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile != nil {
			return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: *p.LocalhostProfile}, "localhost/" + *p.LocalhostProfile
		}
	}
	return nil, ""
}

// SELinux copies the options, or nil.
func SELinux(o *corev1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// Namespaces says which namespaces the pod shares: with the node, within the pod, or none.
func Namespaces(pod *corev1.Pod) *runtimeapi.NamespaceOption {
	o := &runtimeapi.NamespaceOption{Ipc: runtimeapi.NamespaceMode_POD, Network: runtimeapi.NamespaceMode_POD, Pid: runtimeapi.NamespaceMode_CONTAINER}
	if pod.Spec.HostIPC {
		o.Ipc = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostNetwork {
		o.Network = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case pod.Spec.HostPID:
		o.Pid = runtimeapi.NamespaceMode_NODE
	case pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace:
		o.Pid = runtimeapi.NamespaceMode_POD
	}
	return o
}
