package batch

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FuzzSchedule: whatever a client sends is a schedule or an error, and never
// ends the program.
func FuzzSchedule(f *testing.F) {
	for _, s := range []string{"* * * * *", "@every 1s", "TZ=", "TZ=0", "CRON_TZ=UTC", "TZ=UTC 0 0 * * *", "*/0 * * * *", "0-59/7 */3 1,2 jan sun", "\xff"} {
		f.Add(s, false, false)
	}
	path := field.NewPath("schedule")
	f.Fuzz(func(t *testing.T, schedule string, hadZone, hasField bool) {
		errs := validateSchedule(schedule, hadZone, hasField, path)
		if strings.Contains(schedule, "TZ") && !hadZone && len(errs) == 0 {
			t.Fatalf("a new schedule has a zone: %q", schedule)
		}
	})
}

// FuzzTimeZone: a zone that is accepted is one, and its name stays below the
// data base's folder.
func FuzzTimeZone(f *testing.F) {
	for _, s := range []string{"UTC", "Europe/Berlin", "Etc/GMT+1", "../x", "/x", "a//b", "Local", "America/Argentina/ComodRivadavia"} {
		f.Add(s)
	}
	path := field.NewPath("timeZone")
	f.Fuzz(func(t *testing.T, zone string) {
		if len(validateTimeZone(zone, path)) > 0 {
			return
		}
		if l, err := time.LoadLocation(zone); err != nil || l == time.Local {
			t.Fatalf("%q is accepted: %v, %v", zone, l, err)
		}
		if strings.HasPrefix(zone, "/") || strings.Contains(zone, "..") || strings.ContainsAny(zone, "\x00\\") {
			t.Fatalf("%q is accepted", zone)
		}
	})
}

// TestTimeZoneWithoutDataBase: zones are known where the machine has no data
// base of them.
func TestTimeZoneWithoutDataBase(t *testing.T) {
	t.Setenv("ZONEINFO", "/nonexistent")
	for _, zone := range []string{"Pacific/Chatham", "America/Argentina/ComodRivadavia", "UTC"} {
		if errs := validateTimeZone(zone, field.NewPath("timeZone")); len(errs) > 0 {
			t.Errorf("%s: %v", zone, errs)
		}
	}
}
