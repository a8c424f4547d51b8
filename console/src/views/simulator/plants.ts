/** Planted bugs in groups, and those that words find. Pure. */

export interface Plant {
  name: string;
  about: string;
}

export interface PlantGroup {
  title: string;
  plants: Plant[];
}

/** What the rules are about that bugs break, by their numbers in `docs/safety.md`; the first that fits counts. */
const SUBJECTS: readonly [title: string, rules: readonly string[]][] = [
  ["Transactions", ["G7", "G8", "G15", "G22", "G25"]],
  ["Splits, merges and tables", ["G10", "G11", "R11"]],
  ["Votes, leases and clocks", ["G1", "G4", "G5", "G16"]],
  ["Replicas and nodes", ["G3", "G9", "G13", "G17", "R12"]],
  ["What clients are told", ["G24", "G26"]],
];
const OTHER = "Others";

function subjectOf(about: string): string | null {
  const rules = /\(([GR]\d+(?:, [GR]\d+)*)\)/.exec(about)?.[1]?.split(", ");
  if (!rules) return null;
  return SUBJECTS.find(([, known]) => rules.some((rule) => known.includes(rule)))?.[0] ?? OTHER;
}

/** In the order of the subjects; one without a rule stays with the one before it, whose sentence it goes on with. */
export function groupPlants(plants: readonly Plant[]): PlantGroup[] {
  const groups = new Map<string, Plant[]>(
    [...SUBJECTS.map(([title]) => title), OTHER].map((each) => [each, []]),
  );
  let last = OTHER;
  for (const plant of plants) {
    last = subjectOf(plant.about) ?? (plant.about.startsWith("…") ? last : OTHER);
    groups.get(last)?.push(plant);
  }
  return [...groups]
    .filter(([, found]) => found.length > 0)
    .map(([title, found]) => ({ title, plants: found }));
}

/** Those whose name or description has all words, in any case. */
export function findPlants(plants: readonly Plant[], words: string): Plant[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return plants.filter(({ name, about }) => {
    const heap = `${name} ${about}`.toLowerCase();
    return wanted.every((word) => heap.includes(word));
  });
}
