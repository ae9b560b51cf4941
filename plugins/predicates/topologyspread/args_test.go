package topologyspread

import "testing"

func TestParseArgs(t *testing.T) {
	d, err := ParseArgs(nil)
	if err != nil || !d.System || len(d.Constraints) != 2 || d.Constraints[0].MaxSkew != 3 || d.Constraints[1].MaxSkew != 5 {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err = ParseArgs([]byte(`{"defaultingType":"List"}`)); err != nil || d.System || len(d.Constraints) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	for _, bad := range []string{
		`"List"`, `{"defaultingType":"None"}`, `{"defaultConstraints":[{"maxSkew":1,"topologyKey":"k","whenUnsatisfiable":"DoNotSchedule"}]}`,
		`{"defaultingType":"List","defaultConstraints":[{"maxSkew":0,"topologyKey":"k","whenUnsatisfiable":"DoNotSchedule"}]}`,
		`{"defaultingType":"List","defaultConstraints":[{"maxSkew":1,"whenUnsatisfiable":"DoNotSchedule"}]}`,
		`{"defaultingType":"List","defaultConstraints":[{"maxSkew":1,"topologyKey":"k","whenUnsatisfiable":"Never"}]}`,
		`{"defaultingType":"List","defaultConstraints":[{"maxSkew":1,"topologyKey":"k","whenUnsatisfiable":"DoNotSchedule","labelSelector":{}}]}`,
		`{"defaultingType":"List","defaultConstraints":[{"maxSkew":1,"topologyKey":"k","whenUnsatisfiable":"DoNotSchedule"},{"maxSkew":2,"topologyKey":"k","whenUnsatisfiable":"DoNotSchedule"}]}`,
	} {
		if _, err := ParseArgs([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// Constraints that are accepted say what to do.
func FuzzParseArgs(f *testing.F) {
	f.Add([]byte(`{"defaultingType":"List","defaultConstraints":[{"maxSkew":1,"topologyKey":"k","whenUnsatisfiable":"ScheduleAnyway","minDomains":2}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := ParseArgs(data)
		if err != nil {
			return
		}
		for _, c := range d.Constraints {
			if c.MaxSkew < 1 || c.TopologyKey == "" || c.WhenUnsatisfiable != DoNotSchedule && c.WhenUnsatisfiable != ScheduleAnyway {
				t.Errorf("%s: %+v", data, c)
			}
		}
	})
}

// least is the smallest of many numbers, however they move.
func TestLeast(t *testing.T) {
	var l least
	numbers := []int64{3, 1, 4, 1, 5}
	for _, n := range numbers {
		l.add(n)
	}
	for step := range 200 {
		k := step * 7 % len(numbers)
		to := numbers[k] + 1
		if step%3 == 0 {
			to = max(numbers[k]-1, 0)
		}
		l.move(numbers[k], to)
		numbers[k] = to
		if want := int(min(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4])); l.value != want || l.domains != 5 {
			t.Fatalf("step %d: %d of %d, want %d of %v", step, l.value, l.domains, want, numbers)
		}
	}
}
