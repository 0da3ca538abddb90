/** Asks one question and calls `store` once, with what the coins said. Integers alone decide. */
const deniableAsk = (box, store) => {
  const { key, text, options, truthful, words } = DENIABLE;
  const k = options.length;
  const word = () => crypto.getRandomValues(new Uint32Array(1))[0];
  /** The answer with probability truthful / 2^64, else another, each as likely. */
  const randomized = (answer) => {
    const high = word(), low = word();
    if (high < truthful[0] || (high === truthful[0] && low < truthful[1])) return answer;
    const most = 4294967296 - (4294967296 % (k - 1));
    let drawn = word();
    while (drawn >= most) drawn = word();
    drawn %= k - 1;
    return drawn < answer ? drawn : drawn + 1;
  };
  const memory = (said) => {
    try {
      if (said === undefined) return sessionStorage.getItem(key);
      sessionStorage.setItem(key, said);
    } catch {
      // without storage a reload may toss again
    }
    return null;
  };
  const make = (name, content, parent) => {
    const made = document.createElement(name);
    made.textContent = content;
    return parent.appendChild(made);
  };
  const show = (said) => {
    box.replaceChildren();
    make("p", words.said + " " + said, box).setAttribute("role", "status");
    make("p", words.nobody, box);
    store(said);
  };
  const before = memory();
  if (options.includes(before)) return show(before);
  box.replaceChildren();
  const group = make("fieldset", "", box);
  make("legend", text, group);
  const inputs = options.map((option) => {
    const label = make("label", "", group);
    label.style.cssText = "display: block; padding: .5em 0";
    const input = make("input", "", label);
    input.type = "radio";
    make("span", " " + option, label);
    return input;
  });
  inputs.forEach((input) => {
    // without a name the survey cannot store it
    input.onchange = () => inputs.forEach((other) => { other.checked = other === input; });
  });
  make("p", words.before, box);
  const toss = make("button", words.toss, box);
  toss.type = "button";
  const alert = make("p", "", box);
  alert.setAttribute("role", "alert");
  toss.onclick = () => {
    const answer = inputs.findIndex((input) => input.checked);
    if (answer < 0) {
      alert.textContent = words.choose;
      return;
    }
    const said = options[randomized(answer)];
    memory(said);
    show(said);
  };
};
