import js from '@eslint/js';
import jsxA11y from 'eslint-plugin-jsx-a11y';
import reactHooks from 'eslint-plugin-react-hooks';
import ts from 'typescript-eslint';

export default ts.config(
  { ignores: ['dist/', 'node_modules/', 'src/api/*.gen.ts'] },
  js.configs.recommended,
  ts.configs.strict,
  ts.configs.stylistic,
  jsxA11y.flatConfigs.recommended,
  reactHooks.configs['recommended-latest'],
  {
    rules: {
      '@typescript-eslint/consistent-type-imports': 'error',
      // What scrolls must be reachable by keyboard.
      'jsx-a11y/no-noninteractive-tabindex': ['error', { roles: ['group', 'log', 'tabpanel'], tags: [] }],
      // What comes from outside is text, always.
      'no-restricted-syntax': [
        'error',
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: 'Text only.' },
      ],
      'no-restricted-properties': ['error', { property: 'innerHTML', message: 'Text only.' }],
    },
  },
  {
    files: ['scripts/**', '*.config.*'],
    languageOptions: { globals: { console: 'readonly', process: 'readonly', URL: 'readonly' } },
  },
);
