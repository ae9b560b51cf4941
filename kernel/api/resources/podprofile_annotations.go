package resources

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"
)

// Before they had fields, seccomp and AppArmor profiles were named in
// annotations of the pod. Those still have to be well formed and to agree with
// the fields; an AppArmor annotation alone becomes the field.

const appArmorByField = `deprecated since v1.30; use the "appArmorProfile" field instead`

// appArmorOf is the profile that an annotation names, nil for none.
func appArmorOf(note string) *corev1.AppArmorProfile {
	switch name, local := strings.CutPrefix(note, corev1.DeprecatedAppArmorBetaProfileNamePrefix); {
	case note == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case note == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case local && name != "":
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}

func sameProfile(a, b *corev1.AppArmorProfile) bool { return apiequality.Semantic.DeepEqual(a, b) }

// adoptAppArmorAnnotations turns the annotations of a new pod into fields.
func adoptAppArmorAnnotations(ctx context.Context, pod *corev1.Pod) {
	if pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows || len(pod.Annotations) == 0 {
		return
	}
	var level *corev1.AppArmorProfile
	if pod.Spec.SecurityContext != nil {
		level = pod.Spec.SecurityContext.AppArmorProfile
	}
	eachContainer(&pod.Spec, specPath, func(c *corev1.Container, _ *field.Path) {
		key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
		note, ok := pod.Annotations[key]
		if !ok || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			return
		}
		profile := appArmorOf(note)
		if profile != nil && len(validateAppArmor(profile, specPath)) > 0 {
			profile = nil
		}
		if profile != nil && sameProfile(profile, level) {
			return
		}
		if profile != nil {
			if c.SecurityContext == nil {
				c.SecurityContext = &corev1.SecurityContext{}
			}
			c.SecurityContext.AppArmorProfile = profile
		}
		warning.AddWarning(ctx, "", fmt.Sprintf("%s: %s", metadataPath.Child("annotations").Key(key), appArmorByField))
	})
}

// validateProfileAnnotations checks the form of the annotations.
func validateProfileAnnotations(notes map[string]string, s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for key, value := range notes {
		switch name, ok := strings.CutPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix); {
		case ok:
			found := false
			eachContainer(s, specPath, func(c *corev1.Container, _ *field.Path) { found = found || c.Name == name })
			if !found {
				errs = append(errs, field.Invalid(path.Key(key), name, "container not found"))
			}
			if value != "" && value != corev1.DeprecatedAppArmorBetaProfileRuntimeDefault && value != corev1.DeprecatedAppArmorBetaProfileNameUnconfined &&
				!strings.HasPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix) {
				errs = append(errs, field.Invalid(path.Key(key), value, fmt.Sprintf("invalid AppArmor profile name: %q", value)))
			}
		case key == corev1.SeccompPodAnnotationKey || strings.HasPrefix(key, corev1.SeccompContainerAnnotationKeyPrefix):
			file, local := strings.CutPrefix(value, corev1.SeccompLocalhostProfileNamePrefix)
			switch {
			case value == corev1.SeccompProfileRuntimeDefault, value == corev1.DeprecatedSeccompProfileDockerDefault, value == corev1.SeccompProfileNameUnconfined:
			case local:
				errs = append(errs, validateDescending(file, path.Child(key))...)
			default:
				errs = append(errs, field.Invalid(path.Child(key), value, "must be a valid seccomp profile"))
			}
		}
	}
	return errs
}

// validateProfilesAgree compares the annotations of a new pod with its fields.
func validateProfilesAgree(meta *metav1.ObjectMeta, s *corev1.PodSpec, path *field.Path) field.ErrorList {
	if len(meta.Annotations) == 0 {
		return nil
	}
	var errs field.ErrorList
	forbid := func(p *field.Path, what, part string) {
		errs = append(errs, field.Forbidden(p, what+" "+part+" in annotation and field must match"))
	}
	seccomp := func(key string, profile *corev1.SeccompProfile, p *field.Path) {
		note, ok := meta.Annotations[key]
		if !ok || profile == nil {
			return
		}
		p = p.Child("securityContext", "seccompProfile")
		file, local := strings.CutPrefix(note, corev1.SeccompLocalhostProfileNamePrefix)
		same := true
		switch profile.Type {
		case corev1.SeccompProfileTypeUnconfined:
			same = note == corev1.SeccompProfileNameUnconfined
		case corev1.SeccompProfileTypeRuntimeDefault:
			same = note == corev1.SeccompProfileRuntimeDefault || note == corev1.DeprecatedSeccompProfileDockerDefault
		case corev1.SeccompProfileTypeLocalhost:
			if same = local; local && (profile.LocalhostProfile == nil || *profile.LocalhostProfile != file) {
				forbid(p.Child("localhostProfile"), "seccomp", "profile")
			}
		}
		if !same {
			forbid(p.Child("type"), "seccomp", "type")
		}
	}
	var level *corev1.AppArmorProfile
	if sc := s.SecurityContext; sc != nil {
		seccomp(corev1.SeccompPodAnnotationKey, sc.SeccompProfile, path)
		level = sc.AppArmorProfile
	}
	windows := s.OS != nil && s.OS.Name == corev1.Windows
	eachContainer(s, path, func(c *corev1.Container, p *field.Path) {
		profile := level
		if sc := c.SecurityContext; sc != nil {
			seccomp(corev1.SeccompContainerAnnotationKeyPrefix+c.Name, sc.SeccompProfile, p)
			if sc.AppArmorProfile != nil {
				profile = sc.AppArmorProfile
			}
		}
		note, ok := meta.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]
		if !ok || profile == nil || windows {
			return
		}
		p = p.Child("securityContext", "appArmorProfile")
		name, local := strings.CutPrefix(note, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
		same := true
		switch profile.Type {
		case corev1.AppArmorProfileTypeUnconfined:
			same = note == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
		case corev1.AppArmorProfileTypeRuntimeDefault:
			same = note == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
		case corev1.AppArmorProfileTypeLocalhost:
			if same = local; local && (profile.LocalhostProfile == nil || *profile.LocalhostProfile != name) {
				forbid(p.Child("localhostProfile"), "apparmor", "profile")
			}
		}
		if !same {
			forbid(p.Child("type"), "apparmor", "type")
		}
	})
	return errs
}
